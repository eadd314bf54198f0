"""Ask the Hugging Face hub, or fetch one file from it; run as a program with one JSON argument.

It stands alone and is run as its own process for three reasons: huggingface_hub reads its
environment once at import, it retries an unreachable hub for 23 s and more, and only another
process can be stopped at any moment. The argument is `{"do": "list", "repo", "revision",
"timeout"}` or `{"do": "get", "repo", "file", "revision", "timeout", "part", "sha256", "use_cache"}`,
where `part` is the file to write, or to go on with, and `use_cache` says whether a file of the hub's
own cache will do. Each line on stdout is one JSON object: {"reached": true, ...}
once the hub has answered, then what was asked for, or {"failed": reason, "unreachable": bool,
"full": bool}.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

CHUNK_BYTES = 1 << 20
"""Written at a time: what a kill can cost at most."""
LOCK_SECONDS = 5.0
"""How long a process that was told to end, and still writes, is waited for."""


_LOG_IN = "set HF_TOKEN or run `hf auth login`"


def _say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def _fail(reason: str, *, unreachable: bool = False, full: bool = False) -> NoReturn:
    _say(failed=reason, unreachable=unreachable, full=full)
    sys.exit(0)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def main() -> None:
    request: dict[str, Any] = json.loads(sys.argv[1])
    if sys.platform != "win32":
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    # Xet's helper keeps no partial file; by HTTP the hub serves the same bytes, from any offset.
    os.environ["HF_HUB_DISABLE_XET"] = "1"
    from huggingface_hub import constants, errors

    constants.DOWNLOAD_CHUNK_SIZE = CHUNK_BYTES
    repo = request["repo"]
    try:
        (_list if request["do"] == "list" else _get)(request)
    except errors.GatedRepoError:
        _fail(f"{repo} is gated: accept its licence at {constants.ENDPOINT}/{repo}, then {_LOG_IN}")
    except errors.RevisionNotFoundError:
        _fail(f"{repo} has no revision {request['revision']}")
    except errors.RepositoryNotFoundError:
        _fail(f"it has no {repo}, or wants a log-in for it: {_LOG_IN}")
    except errors.EntryNotFoundError:
        _fail(f"it has no {request['file']} in {repo}")
    except errors.HFValidationError as error:
        _fail(f"it takes no such name ({error})")
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status == 401:
            _fail("it refuses the token: run `hf auth login` again, or unset HF_TOKEN")
        if status == 403:
            _fail(f"the token may not read {repo}: see {constants.ENDPOINT}/settings/tokens")
        _fail(f"it answered with status {status}")
    except TimeoutError:
        _fail("an earlier download of the file has not ended yet; try again")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _fail("the disk is full", full=True)
        _unreachable(error)
    except Exception as error:  # whatever the HTTP stack raises is a reason to try the next source
        _unreachable(error)


def _unreachable(error: Exception) -> NoReturn:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    _fail(f"it cannot be reached ({reason[0][:200]})", unreachable=True)


def _list(request: dict[str, Any]) -> None:
    """Say the commit, files, licence and gate of a repository; without network, of what is cached."""
    from huggingface_hub import HfApi, constants, errors

    repo, revision = request["repo"], request["revision"]
    if constants.HF_HUB_OFFLINE:
        _list_cached(repo, revision, "HF_HUB_OFFLINE is set")
        return
    try:
        info = HfApi().model_info(repo, revision=revision, files_metadata=True, timeout=request["timeout"])
    except (errors.HfHubHTTPError, errors.HFValidationError):
        raise
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        _list_cached(repo, revision, f"it cannot be reached ({reason[0][:200]})")
        return
    files = [
        {
            "path": file.rfilename,
            "size": file.size,
            "sha256": None if file.lfs is None else file.lfs.sha256,
        }
        for file in info.siblings or []
    ]
    licence = None if info.card_data is None else info.card_data.get("license")
    _say(reached=True, commit=info.sha, files=files, licence=licence, gated=bool(info.gated), cached=False)


def _list_cached(repo: str, revision: str, why: str) -> None:
    """The GGUFs that the hub's own cache on this machine holds of a repository."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    folder = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo, repo_type="model")
    try:
        commit = (folder / "refs" / revision).read_text("ascii").strip()
    except (OSError, ValueError):
        commit = revision
    snapshot = folder / "snapshots" / commit
    found = [path for path in sorted(snapshot.rglob("*.gguf")) if path.is_file()]
    if not re.fullmatch(r"[0-9a-f]{40}", commit) or not found:
        _fail(f"{why}, and the hub's cache here has no GGUF of {repo}", unreachable=True)
    files = []
    for path in found:
        blob = path.resolve().name  # the hub's cache names a large file by its sha256
        files.append(
            {
                "path": path.relative_to(snapshot).as_posix(),
                "size": path.stat().st_size,
                "sha256": blob if re.fullmatch(r"[0-9a-f]{64}", blob) else None,
            }
        )
    _say(reached=True, commit=commit, files=files, licence=None, gated=False, cached=True)


def _get(request: dict[str, Any]) -> None:
    """Bring one file to `part`, from the hub's cache or over the network; an earlier part is used."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils._fixes import WeakFileLock
    from huggingface_hub.utils._headers import build_hf_headers

    repo, file, revision = request["repo"], request["file"], request["revision"]
    cached = try_to_load_from_cache(repo, file, revision=revision) if request["use_cache"] else None
    if isinstance(cached, str):
        commit = Path(cached).relative_to(constants.HF_HUB_CACHE).parts[2]  # models--x/snapshots/COMMIT
        _say(path=cached, cached=True, commit=commit)
        return
    if constants.HF_HUB_OFFLINE:
        lacks = " and the file is not in the hub's cache" if request["use_cache"] else ""
        _fail(f"HF_HUB_OFFLINE is set{lacks}", unreachable=True)
    # One request without retries tells within the timeout whether the hub is there at all.
    url = hf_hub_url(repo, file, revision=revision)
    found = get_hf_file_metadata(url, timeout=request["timeout"])
    commit = found.commit_hash or revision
    _say(reached=True, commit=commit)
    if re.fullmatch(r"[0-9a-f]{64}", found.etag or "") and found.etag != request["sha256"]:
        _say(other=True)  # the hub names a large file's sha256 beforehand: spare the download
        return
    part = Path(request["part"])
    with WeakFileLock(f"{part}.lock", timeout=LOCK_SECONDS), part.open("ab", buffering=0) as output:
        done = output.tell()
        if found.size is not None and done > found.size:
            output.truncate(done := 0)
        url = hf_hub_url(repo, file, revision=commit)
        headers = build_hf_headers(headers={"Accept-Encoding": "identity"})
        most = constants.MAX_HTTP_DOWNLOAD_SIZE  # in one answer, since the hub's CDN gives no more
        while found.size is not None and found.size - done > most:
            piece = {"Range": f"bytes=0-{done + most - 1}"}  # the library puts the start in
            http_get(url, output, resume_size=done, headers={**headers, **piece}, expected_size=done + most)
            done += most
        http_get(url, output, resume_size=done, headers=headers, expected_size=found.size)
    _say(path=str(part), cached=False)


if __name__ == "__main__":
    main()
