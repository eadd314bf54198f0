"""llama-server with a draft model, started once for a pair, one request at a time, nothing cached."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.processes import Service, wait_for
from bench.programs import PEER_BATCH, draft_options
from bench.samples import BenchError, Prompt, Sample, Setting

ANSWER_S = 3600.0
_LISTENS = re.compile(r"listening on http://127\.0\.0\.1:(\d+)\s")
"""Said once the models are loaded."""


class Server:
    """A llama-server on a free port of this machine only; started by its first request."""

    def __init__(self, program: Path, setting: Setting, k: int | None) -> None:
        self._program = program
        self._setting = setting
        self._k = k
        self._service: Service | None = None
        self._port = 0

    def complete(self, request: dict[str, object]) -> dict[str, object]:
        """The answer to a /completion. Raises BenchError when there is none."""
        service = self._start() if self._service is None else self._service
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_S)
        try:
            body = json.dumps(request)
            connection.request("POST", "/completion", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise service.failure(f"did not answer ({error!r})") from None
        finally:
            connection.close()
        if response.status != 200:
            text = content[:2000].decode(errors="replace")
            raise BenchError(f"llama-server answered with status {response.status}: {text}")
        answer = json.loads(content)
        assert isinstance(answer, dict)
        return answer

    def _start(self) -> Service:
        s = self._setting
        service = Service.of_program(
            self._program,
            "-m", str(s.target), *draft_options(s, self._k), "--host", "127.0.0.1", "--port", "0",
            "-np", "1", "-c", str(s.context_size), "-b", str(PEER_BATCH), "-t", str(s.threads),
            "--cache-ram", "0", "--ctx-checkpoints", "0", "--no-webui", "--offline", "--log-colors", "off",
        )  # fmt: skip
        try:
            found = wait_for(service, _LISTENS)
        except BaseException:
            service.close()
            raise
        self._service, self._port = service, int(found[1])
        return service

    def close(self) -> None:
        if self._service is not None:
            self._service.close()
            self._service = None


@dataclass(slots=True)
class LlamaServer:
    """One prompt as rendered text, answered by a server that may serve other temperatures too."""

    name: str
    server: Server
    setting: Setting
    render: Callable[[Prompt], str]

    def run(self, prompt: Prompt, repetition: int) -> Sample:
        s = self.setting
        request = {
            "prompt": self.render(prompt),
            "n_predict": s.max_tokens,
            "temperature": s.temperature,
            "seed": s.seed + repetition,
            "cache_prompt": False,
        }
        return parse_completion(self.server.complete(request))


def parse_completion(answer: dict[str, object]) -> Sample:
    """What llama-server reported in `timings`: its first token comes with the prompt's time."""
    timings, text = answer.get("timings"), answer.get("content")
    try:
        if not isinstance(timings, dict) or not isinstance(text, str):
            raise TypeError
        if timings["cache_n"]:
            raise BenchError(f"llama-server took {timings['cache_n']} tokens of the prompt from its cache.")
        predicted, accepted = int(timings["predicted_n"]), int(timings.get("draft_n_accepted", 0))
        prompt_s, decode_s = timings["prompt_ms"] / 1e3, timings["predicted_ms"] / 1e3
        return Sample(
            decode_tokens=predicted - 1,
            decode_s=decode_s,
            wall_tokens=predicted,
            wall_s=prompt_s + decode_s,
            prompt_tokens=int(timings["prompt_n"]),
            drafted=int(timings.get("draft_n", 0)),
            accepted=accepted,
            rounds=predicted - accepted,
            text=text,
        )
    except (KeyError, TypeError, ValueError):
        raise BenchError(f"llama-server's answer is not understood: {str(answer)[:2000]}") from None
