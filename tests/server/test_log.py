from triton_ads.server.log import LogReader, last_lines, parse_record

STAMP = "1130 04:41:33.331813 5495"


def test_a_model_that_is_ready():
    record = parse_record(f"I{STAMP} model_lifecycle.cc:839] \"successfully loaded 'user_encoder'\"")
    assert (record.level, record.loaded, record.failed, record.matters) == ("I", "user_encoder", None, False)


def test_a_service_that_was_opened():
    assert (
        parse_record(f'I{STAMP} http_server.cc:4713] "Started HTTPService at 127.0.0.1:18000"').opened == "HTTPService"
    )
    assert parse_record(f'I{STAMP} x.cc:1] "Started Metrics Service at 127.0.0.1:18002"').opened == "Metrics"


def test_every_way_in_which_triton_says_that_a_model_failed():
    lines = {
        "\"failed to load 'a' version 1: Internal: RuntimeError: no luck\\nAt:\\n  m.py(7)\\n\"": (
            "a",
            "Internal: RuntimeError: no luck\nAt:\n  m.py(7)",
        ),
        "\"failed to load model 'b': at least one version must be available\"": (
            "b",
            "at least one version must be available",
        ),
        "\"Poll failed for model directory 'c': failed to read text proto\"": ("c", "failed to read text proto"),
        "\"Invalid argument: ensemble 'd' depends on 'b' which has no loaded version.\"": (
            "d",
            "depends on 'b' which has no loaded version.",
        ),
    }
    for text, failed in lines.items():
        record = parse_record(f"E{STAMP} model_repository_manager.cc:1] {text}")
        assert record.failed == failed
        assert record.matters


def test_what_every_machine_without_a_gpu_says_does_not_matter_and_a_real_error_does():
    for text in ("CudaDriverHelper has not been initialized.", "DCGM unable to start: DCGM initialization error"):
        assert not parse_record(f'E{STAMP} server.cc:241] "{text}"').matters
    assert parse_record(f'W{STAMP} metrics.cc:1] "disk is full"').matters


def test_what_a_model_prints_is_no_record():
    record = parse_record("Traceback (most recent call last):")
    assert (record.level, record.text, record.matters) == ("", "Traceback (most recent call last):", False)


def test_the_reader_gives_each_line_once_and_only_when_complete(tmp_path):
    path = tmp_path / "log"
    reader = LogReader(path)
    assert reader.read() == []
    path.write_text(f'W{STAMP} a.cc:1] "one"\nW{STAMP} a.cc:1] "tw')
    assert [r.text for r in reader.read()] == ["one"]
    with path.open("a") as file:
        file.write('o"\n')
    assert [r.text for r in reader.read()] == ["two"]
    assert reader.read() == []


def test_a_reader_of_an_old_log_begins_at_its_end(tmp_path):
    (tmp_path / "log").write_text("old\n")
    assert LogReader(tmp_path / "log").read() == []


def test_last_lines_leave_out_tables(tmp_path):
    (tmp_path / "log").write_text("a\n+---+\n| x |\n\nb\n")
    assert last_lines(tmp_path / "log", 5) == ["a", "b"]
    assert last_lines(tmp_path / "log", 1) == ["b"]
    assert last_lines(tmp_path / "none", 5) == []
