"""A synthetic ads world of any size, in which the best reachable prediction of every event is known.

Users are *members*, with long journeys, or *visitors*, with short ones. Each is interested in a few of twelve topics
at a time; interests come and go within days, more of some topics at some ages. Ads belong to a topic, an advertiser
and a format; popular ones are shown more often (Zipf) and are better. Members are shown more of what they have lately
seen. A conversion depends on the placement, the ad's quality and format, the hour, and, differently at each placement,
on whether the user is interested in the ad's topic right now, which nobody sees. What can be seen is what came of
earlier ads of that topic, and how long ago that was.

So popularity explains what can be known of a visitor; of a member there is more to know: which events of the journey
are of the ad's topic, what came of each, and how old each is. `beliefs.py` computes exactly what can be known.
"""

from triton_ads.data.synthetic.log import read, read_log

__all__ = ["read", "read_log"]
