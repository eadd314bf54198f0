"""The engine in a child process: what its caller sees, what is said, the process, the child's side."""

from edge_spec.host.engine_host import EngineHost
from edge_spec.host.wire import ChatRequest, Loading, PairInfo, PairSpec, TextRequest

__all__ = ["ChatRequest", "EngineHost", "Loading", "PairInfo", "PairSpec", "TextRequest"]
