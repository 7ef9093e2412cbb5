from triton_ads.server.soak import SAMPLES, Growth, SoakReport, soak


def report(*samples):
    return SoakReport(10_000, 0, (Growth("stub", samples),))


def test_a_leak_is_told_from_a_buffer_that_reaches_its_size_and_from_a_single_peak():
    flat, megabyte = [50_000_000] * 20, 1_000_000
    assert report(*flat).leaks() == []
    assert report(*flat[:3], *[flat[0] + 30 * megabyte] * 17).leaks() == []  # grew once, early on
    assert report(*flat[:15], flat[0] + 30 * megabyte, *flat[16:]).leaks() == []
    (leak,) = report(*[50_000_000 + i * megabyte for i in range(20)]).leaks()
    assert leak == "stub grew by 10.00 MB over 5000 requests (54.5 to 64.5 MB; allowed 1.50 MB)"


def test_files_that_are_not_closed_are_told():
    files = (Growth("stub", (20,) * 10), Growth("tritonserver", tuple(range(30, 50))))
    (leak,) = SoakReport(10_000, 0, (), files).leaks()
    assert leak == "tritonserver has 44 files open, 34 before (allowed 4 more)"


def test_the_server_keeps_its_memory_flat(server):
    """The quick form; `python -m triton_ads.server.soak` runs the same with 10,000 requests."""
    seen = soak(server, requests=2_000, warm_up=1_000)
    assert [len(g.samples) for g in seen.growths] == [SAMPLES] * 3  # tritonserver, its stub, shared memory
    assert all(min(g.samples) > 100_000 for g in seen.growths)
    assert 60 < seen.refused < 140  # one in twenty of 2,000
    assert seen.leaks() == []
