"""Rank ads for several users at once over HTTP, with one client shared by all threads.

python clients/rank_http.py [host:port]
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from triton_ads.client import RankClient, RankError, Ranking, ServerUnavailableError

URL = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8000"
ADS = [50, 181, 258, 100, 294]

with RankClient(URL, "http", timeout_s=1.0, retries=3) as client:

    def best(user: int) -> Ranking:
        # The server looks the user up in its store; what it does not know is a cold start, not an error.
        return client.rank(ADS, user_id=user, deadline_ms=500)

    try:
        with ThreadPoolExecutor(4) as pool:
            rankings = dict(zip(range(1, 9), pool.map(best, range(1, 9)), strict=True))
    except ServerUnavailableError as error:
        sys.exit(f"{error}\nStart a server with: triton-ads serve")
    except RankError as error:  # refused, or too late: the message says why
        sys.exit(str(error))

for user, ranking in rankings.items():
    print(f"user {user}: {ranking.ids.tolist()}, tier {ranking.tier} ({ranking.reason})")
