"""Fetch one file from the Hugging Face hub; run as a program: REPO FILE REVISION FOLDER TIMEOUT.

It stands alone and is run as its own process for three reasons: huggingface_hub reads its
environment once at import, it retries an unreachable hub for 23 s and more, and a download in its
native helper can only be stopped from outside. Each line on stdout is one JSON object:
{"reached": bytes, "etag": text} once the hub has answered, then {"path": file, "cached": bool},
or {"failed": reason, "unreachable": bool}.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time


def _say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main() -> None:
    repo, file, revision, folder, timeout = sys.argv[1:]
    if sys.platform != "win32":
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub import try_to_load_from_cache as cached_file
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    cached = cached_file(repo, file, revision=revision)
    if isinstance(cached, str):
        _say(path=cached, cached=True)
        return
    if constants.HF_HUB_OFFLINE:
        _say(failed="HF_HUB_OFFLINE is set and the file is not in the hub's cache", unreachable=True)
        return
    try:
        # One request without retries tells within the timeout whether the hub is there at all.
        found = get_hf_file_metadata(hf_hub_url(repo, file, revision=revision), timeout=float(timeout))
        _say(reached=found.size, etag=found.etag)
        path = hf_hub_download(repo, file, revision=revision, local_dir=folder, etag_timeout=float(timeout))
        _say(path=path, cached=False)
    except GatedRepoError:
        _say(failed=f"{repo} wants you to accept its licence and to log in first", unreachable=False)
    except (RepositoryNotFoundError, RevisionNotFoundError, EntryNotFoundError):
        _say(failed=f"it has no {file} in {repo} (or wants a log-in)", unreachable=False)
    except HfHubHTTPError as error:
        _say(failed=f"it answered with status {error.response.status_code}", unreachable=False)
    except Exception as error:  # whatever the HTTP stack raises is a reason to try the next source
        reason = str(error).strip().splitlines() or [type(error).__name__]
        _say(failed=f"it cannot be reached ({reason[0][:200]})", unreachable=True)


if __name__ == "__main__":
    main()
