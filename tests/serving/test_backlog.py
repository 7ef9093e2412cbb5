from triton_ads.serving.backlog import Backlog


def test_work_adds_up_and_is_done_in_time():
    backlog = Backlog()
    assert backlog.ahead_ms(5_000) == 0
    backlog.add(2.0, 5_000)
    backlog.add(3.0, 5_000)
    assert backlog.ahead_ms(5_000) == 5.0
    assert backlog.ahead_ms(8_000) == 2.0
    backlog.add(1.0, 8_000)
    assert backlog.ahead_ms(8_000) == 3.0


def test_an_idle_server_does_not_save_up_time():
    backlog = Backlog()
    backlog.add(1.0, 1_000)
    assert backlog.ahead_ms(60_000_000) == 0
    backlog.add(1.0, 60_000_000)
    assert backlog.ahead_ms(60_000_000) == 1.0
