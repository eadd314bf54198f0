"""What the peers are told and what they say, and that their processes surely end."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from bench import lookup, processes, programs, server
from bench.samples import BenchError, Prompt, Sample, Setting

SETTING = Setting(Path("t.gguf"), Path("d.gguf"), 8, 0.8, 512, 2, seed=1)
PROMPT = Prompt("a", "code", ({"role": "user", "content": "Write f."},))

# -- programs that answer once

SIMPLE_LOG = """\
0.00.411.230 I llama_context: n_ctx         = 4096
0.01.902.114 I encoded   37 tokens in    0.512 seconds, speed:   72.266 t/s
0.01.902.121 I decoded   65 tokens in    8.125 seconds, speed:    8.000 t/s
0.01.902.123 I
0.01.902.124 I n_draft   = 7
0.01.902.124 I n_predict = 65
0.01.902.125 I n_drafted = 105
0.01.902.125 I n_accept  = 48
0.01.902.126 I accept    = 45.714%
0.01.902.126 I
0.01.902.127 I draft:
"""
TEXT = "<|im_start|>user\nWrite f.<|im_end|>\n<|im_start|>assistant\n"


def test_llama_speculative_simples_report_is_read() -> None:
    output = f"\n\n{TEXT}def f():\n    pass\n\n"
    assert programs.parse_simple(output, SIMPLE_LOG, TEXT) == Sample(
        decode_tokens=65,
        decode_s=8.125,
        wall_tokens=65,
        wall_s=8.637,
        prompt_tokens=37,
        drafted=105,
        accepted=48,
        rounds=17,
        text="def f():\n    pass\n\n",
    )


def test_without_the_prompt_in_its_output_a_peers_text_is_unknown() -> None:
    assert programs.parse_simple("something else", SIMPLE_LOG, TEXT).text is None


@pytest.mark.parametrize("lost", ["encoded", "decoded", "n_drafted", "n_accept "])
def test_a_report_that_lacks_a_line_is_shown_and_refused(lost: str) -> None:
    log = "".join(part for part in SIMPLE_LOG.splitlines(keepends=True) if lost not in part)
    with pytest.raises(BenchError) as caught:
        programs.parse_simple(TEXT, log, TEXT)
    said = str(caught.value)
    assert said.startswith(f"llama-speculative-simple did not print '{lost.strip()}")
    assert said.endswith("accept    = 45.714%\n0.01.902.126 I\n0.01.902.127 I draft:\n")


def test_llama_benchs_report_has_a_decode_time_and_no_wall_time() -> None:
    output = json.dumps([{"n_prompt": 0, "n_gen": 16, "n_depth": 37, "samples_ns": [500_000_000]}])
    found = programs.parse_bench(output)
    assert found == Sample(16, 0.5, 16, None, 37)
    assert (found.decode_speed, found.wall_speed) == (32.0, None)


@pytest.mark.parametrize("output", ["", "[]", "[{}, {}]", '[{"samples_ns": []}]'])
def test_another_report_of_llama_bench_is_shown_and_refused(output: str) -> None:
    with pytest.raises(BenchError, match="llama-bench did not print one result"):
        programs.parse_bench(output)


def test_drafting_is_told_in_llama_cpps_words() -> None:
    common = ("-md", "d.gguf", "--spec-type", "draft-simple", "-td", "2")
    assert programs.draft_options(SETTING, None) == common
    lengths = ("--spec-draft-n-max", "7", "--spec-draft-n-min", "0")
    assert programs.draft_options(SETTING, 7) == (*common, *lengths)
    assert programs.ngram_options("ngram-map-k", ()) == ("--spec-type", "ngram-map-k")
    assert programs.ngram_options("ngram-mod", (8, 2, 7)) == (
        "--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", "8", "--spec-ngram-mod-n-min", "2",
        "--spec-ngram-mod-n-max", "7",
    )  # fmt: skip


def test_a_peer_does_not_see_llama_cpps_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LLAMA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LLAMA_ARG_THREADS", "64")
    monkeypatch.setenv("LLAMA_OTHER", "kept")
    code = "import os, sys; print([n for n in os.environ if n.startswith('LLAMA_')]); sys.stderr.write('log')"
    assert processes.run_peer(Path(sys.executable), "-c", code) == ("['LLAMA_OTHER']\n", "log")


def test_a_peer_that_fails_is_quoted() -> None:
    program = Path(sys.executable)
    with pytest.raises(BenchError) as caught:
        processes.run_peer(program, "-c", "import sys; print('loading'); sys.exit('no memory')")
    assert str(caught.value) == f"{program.name} failed with exit code 1:\nloading\nno memory\n"


def test_a_peer_that_was_not_built_is_refused_with_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"run scripts/build_peers\.py first\.$"):
        processes.run_peer(tmp_path / "llama-bench")
    with pytest.raises(BenchError, match=r"run scripts/build_peers\.py first\.$"):
        processes.Service.of_program(tmp_path / "llama-server")


# -- processes that serve until they are closed

SLEEPER = "import os, sys, time; print('pid', os.getpid(), file=sys.stderr, flush=True); time.sleep(600)"


def pid_said(log: str) -> int:
    return int(log.rpartition("pid ")[2])


def gone(pid: int) -> bool:
    """Whether the process ends within ten seconds."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_a_program_ends_when_its_service_is_closed() -> None:
    with processes.Service.of_program(Path(sys.executable), "-c", SLEEPER) as service:
        pid = int(processes.wait_for(service, re.compile(r"pid (\d+)\s"))[1])
        assert psutil.pid_exists(pid)
    assert gone(pid)
    service.close()  # again does nothing


@pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does")
def test_a_program_ends_when_the_script_that_started_it_is_killed() -> None:
    code = (
        "import re, sys, time; from pathlib import Path; from bench import processes\n"
        f"s = processes.Service.of_program(Path(sys.executable), '-c', {SLEEPER!r})\n"
        "print(processes.wait_for(s, re.compile(r'pid (\\d+)\\s'))[1], flush=True); time.sleep(600)"
    )
    script = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=processes.SCRIPTS,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(map(str, (processes.SCRIPTS, processes.SCRIPTS.parent)))},
        stdout=subprocess.PIPE,
        text=True,
    )
    with script:
        assert script.stdout is not None
        pid = int(script.stdout.readline())
        script.send_signal(signal.SIGKILL)
        script.wait()
        assert gone(pid)


def test_a_service_that_ends_while_it_starts_is_quoted() -> None:
    code = "import sys; sys.exit('no such model')"
    with (
        processes.Service.of_program(Path(sys.executable), "-c", code) as service,
        pytest.raises(BenchError, match=r"ended while it started:\nno such model"),
    ):
        processes.wait_for(service, re.compile("listening"))


# -- llama-server

TIMINGS = {
    "cache_n": 0, "prompt_n": 37, "prompt_ms": 512.5, "prompt_per_token_ms": 13.85, "prompt_per_second": 72.2,
    "predicted_n": 17, "predicted_ms": 2000.0, "predicted_per_token_ms": 125.0, "predicted_per_second": 8.0,
    "draft_n": 24, "draft_n_accepted": 9,
}  # fmt: skip
ANSWER = {"content": "def f():\n    pass", "timings": TIMINGS, "stop": True}


def test_llama_servers_first_token_comes_with_the_prompt() -> None:
    found = server.parse_completion(ANSWER)
    assert found == Sample(
        decode_tokens=16,
        decode_s=2.0,
        wall_tokens=17,
        wall_s=2.5125,
        prompt_tokens=37,
        drafted=24,
        accepted=9,
        rounds=8,
        text="def f():\n    pass",
    )
    assert found.decode_speed == TIMINGS["predicted_per_second"]


def test_without_drafts_llama_server_says_nothing_of_them() -> None:
    timings = {name: value for name, value in TIMINGS.items() if not name.startswith("draft")}
    found = server.parse_completion({**ANSWER, "timings": timings})
    assert (found.drafted, found.accepted, found.rounds) == (0, 0, 17)


def test_a_prompt_from_llama_servers_cache_is_refused() -> None:
    with pytest.raises(BenchError, match="took 5 tokens of the prompt from its cache"):
        server.parse_completion({**ANSWER, "timings": {**TIMINGS, "cache_n": 5}})


@pytest.mark.parametrize("answer", [{}, {"content": "x"}, {"content": "x", "timings": {"cache_n": 0}}])
def test_another_answer_of_llama_server_is_shown_and_refused(answer: dict[str, object]) -> None:
    with pytest.raises(BenchError, match="answer is not understood"):
        server.parse_completion(answer)


FAKE_SERVER = """\
#!{python}
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["prompt"] == "crash":
            sys.stderr.write("GGML_ASSERT failed\\n"); sys.stderr.flush()
            import os; os._exit(134)
        body = json.dumps({{"content": json.dumps([asked, sys.argv[1:]]), "timings": {timings!r}}}).encode()
        self.send_response(503 if asked["prompt"] == "busy" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
sys.stderr.write("srv  main: listening on http://127.0.0.1:%d\\n" % server.server_port); sys.stderr.flush()
server.serve_forever()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "llama-server"
    path.write_text(FAKE_SERVER.format(python=sys.executable, timings=TIMINGS))
    path.chmod(0o755)
    return path


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script")
def test_a_server_is_started_once_and_asked_without_its_cache(program: Path) -> None:
    served = server.Server(program, SETTING, 7)
    try:
        arm = server.LlamaServer("server-k7", served, SETTING, lambda prompt: f"<{prompt.id}>")
        texts = [json.loads(arm.run(PROMPT, repetition).text or "") for repetition in (0, 1)]
    finally:
        served.close()
    assert [asked for asked, _ in texts] == [
        {"prompt": "<a>", "n_predict": 8, "temperature": 0.8, "seed": seed, "cache_prompt": False}
        for seed in (1, 2)
    ]
    options = texts[0][1]
    assert options == texts[1][1]
    told = dict(itertools.pairwise(options))
    assert (told["-m"], told["-md"], told["--spec-draft-n-max"], told["--host"]) == (
        "t.gguf", "d.gguf", "7", "127.0.0.1",
    )  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script")
@pytest.mark.parametrize(("prompt", "told"), [("crash", "GGML_ASSERT failed"), ("busy", "status 503")])
def test_a_server_that_does_not_answer_is_quoted(program: Path, prompt: str, told: str) -> None:
    served = server.Server(program, SETTING, None)
    try:
        with pytest.raises(BenchError, match=told):
            served.complete({"prompt": prompt})
    finally:
        served.close()


# -- llama-cpp-python's prompt lookup


def test_prompt_lookups_accepted_tokens_are_those_beyond_one_a_decode() -> None:
    answer = {"ids": [5, 6, 7, 8, 9], "first_s": 0.5, "wall_s": 2.5, "drafted": 6, "decodes": 3}
    found = lookup.parse_lookup(answer, 37, lambda ids: " ".join(map(str, ids)))
    assert found == Sample(
        decode_tokens=4,
        decode_s=2.0,
        wall_tokens=5,
        wall_s=2.5,
        prompt_tokens=37,
        drafted=6,
        accepted=2,
        rounds=3,
        text="5 6 7 8 9",
    )


@pytest.mark.parametrize("answer", [{}, {"ids": [5], "first_s": "now"}])
def test_another_answer_of_its_child_is_shown_and_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(BenchError, match="said what is not understood"):
        lookup.parse_lookup(answer, 1, str)


@pytest.mark.gguf
def test_prompt_lookup_answers_twice_alike_from_a_real_model(tiny_path: Path) -> None:
    setting = Setting(tiny_path, None, 12, 0.0, 512, 1, seed=1)
    child = lookup.LookupChild(setting, 256)
    ids = [1, 504, 2620, 28, 1165, 28, 5345, 28, 1165, 28]
    try:
        arm = lookup.Lookup("lookup", child, setting, lambda _prompt: ids, lambda found: str(list(found)))
        first, second = arm.run(PROMPT, 0), arm.run(PROMPT, 1)
    finally:
        child.close()
    assert first.text == second.text
    assert (first.wall_tokens, first.prompt_tokens) == (12, 10)
    assert (first.drafted, first.accepted, first.rounds) == (second.drafted, second.accepted, second.rounds)
    assert first.accepted + first.rounds == 12
    assert first.drafted >= first.accepted


@pytest.mark.gguf
def test_a_model_that_cannot_be_loaded_is_quoted(tmp_path: Path) -> None:
    setting = Setting(tmp_path / "absent.gguf", None, 12, 0.0, 512, 1, seed=1)
    child = lookup.LookupChild(setting, 256)
    try:
        with pytest.raises(BenchError, match=r"llama-cpp-python ended:(.|\n)*absent\.gguf"):
            child.ask({})
    finally:
        child.close()
