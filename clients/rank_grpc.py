"""Rank a few ads over gRPC. Copy what you need; it runs as it stands against `triton-ads serve`.

python clients/rank_grpc.py [host:port]
"""

import sys

from triton_ads.client import RankClient, RankError, ServerUnavailableError

URL = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8001"

# One client for the whole program: it may be shared by threads, and opening a connection costs more than a request.
# Under heavy load, spread the calls over several channels with pool=4.
with RankClient(URL, "grpc", timeout_s=1.0, retries=3) as client:
    try:
        # The server looks the user up in its store; what it does not know is a cold start, not an error.
        ranking = client.rank([50, 181, 258, 100, 294], user_id=42, deadline_ms=500)
    except ServerUnavailableError as error:
        sys.exit(f"{error}\nStart a server with: triton-ads serve")
    except RankError as error:  # refused, or too late: the message says why
        sys.exit(str(error))

print(f"tier {ranking.tier} ({ranking.reason}), release {ranking.release}")
for ad, scores in ranking:
    print(ad, *(f"{score:.4f}" for score in scores))
