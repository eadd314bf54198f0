"""Every error that edge-spec raises on purpose.

::

    EdgeSpecError                 exit code
    ├── UsageError                2   a value, prompt or path that the caller can put right
    │   ├── SettingError              a setting outside its range or of an unknown name
    │   ├── PromptTooLongError        the prompt does not fit in the context
    │   └── OutputError               a file that cannot be written
    ├── ModelError                3   models that cannot be used
    │   ├── ModelFileError            missing, truncated, or not a GGUF
    │   ├── IncompatiblePairError     this draft cannot draft for this target
    │   ├── MemoryForeseenError       the load would not fit in memory
    │   └── EngineError               llama.cpp refused or failed
    │       └── EngineCrashedError        the engine's process ended by itself
    └── FetchError                4   a download failed, or there is no network
        ├── HashMismatchError         the bytes are not the bytes that were promised
        └── NoSpaceError              the disk cannot hold the download
    Cancelled                     130 the caller asked for a stop (not an error)

A message says what is wrong, why, and what to do, in one sentence for a person.
"""


class EdgeSpecError(Exception):
    """Base of all errors raised on purpose; `exit_code` is the command line's."""

    exit_code = 1


class UsageError(EdgeSpecError):
    """The caller gave something that cannot be used and can put it right."""

    exit_code = 2


class SettingError(UsageError, ValueError):
    """A setting is outside its range or has an unknown name."""


class PromptTooLongError(UsageError):
    """The prompt does not fit in the context."""


class OutputError(UsageError):
    """A file that was asked for cannot be written."""


class ModelError(EdgeSpecError):
    """A model, or a pair of models, cannot be used."""

    exit_code = 3


class ModelFileError(ModelError):
    """A model file is missing, truncated, or not a GGUF."""


class IncompatiblePairError(ModelError):
    """The draft's vocabulary is not the target's."""


class MemoryForeseenError(ModelError):
    """Loading would need more memory than is free."""


class EngineError(ModelError):
    """llama.cpp refused a call or returned a failure code."""


class NoMassError(EngineError):
    """A row of logits leaves no token any probability: biases took them all."""


class EngineCrashedError(EngineError):
    """The process that ran the engine is gone; whoever asked lives on and can load it again.

    `signal_name` is the signal that ended it, such as SIGABRT, or None; `log_tail` holds the
    last lines that it printed, oldest first.
    """

    def __init__(self, text: str, signal_name: str | None = None, log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.signal_name = signal_name
        self.log_tail = log_tail


class FetchError(EdgeSpecError):
    """A download failed, or the network cannot be reached."""

    exit_code = 4


class HashMismatchError(FetchError):
    """A file's sha256 is not the one in the catalogue."""


class NoSpaceError(FetchError):
    """The disk does not have room for a download."""


class Cancelled(Exception):
    """The caller asked for a stop; caches are consistent and usable."""

    exit_code = 130
