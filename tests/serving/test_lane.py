import os
import threading

from triton_ads.serving.lane import NICE_STEPS, Lane


def test_what_piles_up_is_taken_together_in_order_and_in_bounds():
    taken, busy, release = [], threading.Event(), threading.Event()

    def work(items):
        taken.append(items)
        busy.set()
        release.wait(5)

    lane = Lane(work, largest=3)
    lane.put([0])
    assert busy.wait(5)
    for i in range(1, 6):
        lane.put([i])
    release.set()
    lane.stop()
    assert taken == [[0], [1, 2, 3], [4, 5]]


def test_stopping_answers_what_is_pending():
    taken = []
    lane = Lane(taken.extend, largest=2)
    lane.put(list(range(100)))
    lane.stop()
    assert taken == list(range(100))


def test_an_idle_lane_stops():
    lane = Lane(lambda items: None, largest=1)
    lane.stop()
    assert not lane._thread.is_alive()


def test_it_stands_back_for_the_thread_that_gives_it_work():
    own, seen = os.getpriority(os.PRIO_PROCESS, 0), []
    lane = Lane(lambda items: seen.append(os.getpriority(os.PRIO_PROCESS, 0)), largest=1)
    lane.put([0])
    lane.stop()
    assert seen == [min(own + NICE_STEPS, 19)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == own
