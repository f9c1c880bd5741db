"""``ds4-lsp doctor``: one line per check, with the remedy where one is needed; exit status 1 when a check failed.

What can die runs in processes of its own: the probe, the self-test, the engine that loads the model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from ds4_lsp.cli.catalogue import DEFAULT
from ds4_lsp.cli.chat import choose_model
from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.protocol.recommended import chosen, recommended
from ds4_lsp.protocol.settings import ModelSettings, SamplingSettings

PROBE_TIMEOUT = 120.0
"""Seconds for llama.cpp to start; a GPU driver can be slow the first time."""
UNFIT = "unfit: "
GPU_KINDS = ("gpu", "igpu")
EDITORS = ("nvim", "code", "codium", "hx", "emacs", "zed", "kak")
GPU_INSTALL = 'CMAKE_ARGS="-DGGML_CUDA=on" make install (or GGML_METAL, GGML_VULKAN, GGML_HIP)'


@dataclass(frozen=True)
class Check:
    """One line. ``warning`` is worth knowing and fails nothing; ``remedy`` says what to do."""

    name: str
    state: Literal["ok", "warning", "failed"]
    detail: str
    remedy: str = ""


def add_parser(parsers: Any) -> None:
    parser = parsers.add_parser("doctor", help="check what the server needs, and say what to do")
    parser.add_argument("--model", metavar="PATH", help="the model to check (default: as `ds4-lsp chat` would choose)")
    parser.add_argument("--context", metavar="TOKENS", type=int, help="the context to check memory for")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    model = choose_model(args.model)
    probed = probe_unless_unfit()
    checks: list[Callable[[], Check]] = [
        check_python,
        lambda: check_llama(probed),
        lambda: check_decoding(probed),
        lambda: check_gpu(probed),
        lambda: check_model(model),
        lambda: check_sampling(model),
        lambda: check_memory(model, args.context, probed),
        lambda: check_speed(model, args.context, probed),
        check_sessions,
        check_ripgrep,
        check_editors,
    ]
    console = Console(highlight=False, soft_wrap=True)
    styles = {"ok": "green", "warning": "yellow", "failed": "bold red"}
    failed = False
    for check in checks:
        found = check()
        failed |= found.state == "failed"
        line = Text(f"{found.state:8}", style=styles[found.state]) + Text(f"{found.name}: {found.detail}")
        console.print(line + Text(f". {found.remedy}" if found.remedy else ""))
    return 1 if failed else 0


def check_python() -> Check:
    version = platform.python_version()
    if sys.hexversion < 0x030B0000:
        return Check("Python", "failed", version, "ds4-lsp needs 3.11 or newer")
    return Check("Python", "ok", f"{version}, {sys.executable}")


def probe_unless_unfit() -> dict[str, Any] | str:
    """The probe, unless it would be the first to die."""
    from ds4_lsp.engine import build

    unfit = build.unfit()
    return probe() if unfit is None else f"{UNFIT}{' '.join(unfit.splitlines())}"


def probe(command: tuple[str, ...] = (sys.executable, "-m", "ds4_lsp.engine", "--probe")) -> dict[str, Any] | str:
    """llama.cpp's description of itself, from a process of its own, or why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().splitlines()
        return lines[-1] if lines else f"it ended with status {done.returncode} and said nothing"
    return found if isinstance(found, dict) else "it said something else"


def check_llama(probed: dict[str, Any] | str) -> Check:
    if isinstance(probed, str):
        from ds4_lsp.engine import build

        told = probed.startswith(UNFIT)
        remedy = "" if told else f"Install another build: {build.install_command(portable=True)}"
        return Check("llama.cpp", "failed", probed.removeprefix(UNFIT), remedy)
    backends = "GPU offload" if probed["gpuOffload"] else "CPU only"
    rpc = ", RPC" if probed["rpc"] else ""
    return Check("llama.cpp", "ok", f"{probed['version']}, llama-cpp-python {probed['binding']}, {backends}{rpc}")


def check_decoding(probed: dict[str, Any] | str) -> Check:
    """The self-test that the build passed when it was installed: the CPU may be another one by now."""
    from ds4_lsp.engine import build, selftest

    name = "decoding"
    if isinstance(probed, str):
        return Check(name, "warning", "not known without llama.cpp")
    outcome = selftest.run(sys.executable)
    if outcome.problem is not None:
        remedy = f"Install a build that works: {build.install_command(portable=True)}"
        return Check(name, "failed", f"llama.cpp {outcome.problem}", remedy)
    worst = max(outcome.errors.values())
    return Check(name, "ok", f"right in {', '.join(outcome.errors)}, within {worst:.1%}, {outcome.seconds:.1f} s")


def check_speed(model: str | None, context: int | None, probed: dict[str, Any] | str) -> Check:
    """Load the model as the server would, with the settings' defaults, and let it read and write a little."""
    name = "speed"
    if model is None or isinstance(probed, str):
        return Check(name, "warning", "not known without a model and llama.cpp")
    if "failed" in (check_model(model).state, check_memory(model, context, probed).state):
        return Check(name, "warning", "not known of a model that cannot be loaded")
    from ds4_lsp.cli.speed import measure

    try:
        speed = asyncio.run(measure(model, context))
    except Ds4Error as error:
        what, *rest = error.message.splitlines()
        return Check(name, "failed", what, " ".join(rest))
    return Check(name, "ok", speed.in_words())


def check_gpu(probed: dict[str, Any] | str) -> Check:
    devices = [] if isinstance(probed, str) else probed["devices"]
    gpus = [device for device in devices if device["kind"] in GPU_KINDS]
    if gpus:
        named = ", ".join(
            f"{device['name']} ({device['description']}, {gigabytes(device['free'])} free)" for device in gpus
        )
        return Check("GPU", "ok", named)
    if not isinstance(probed, str) and probed["gpuOffload"]:
        return Check("GPU", "warning", "the build has GPU support, and no device was found", "Check the GPU's driver")
    return Check("GPU", "warning", "none: models run on the CPU", f"With a GPU, compile for it: {GPU_INSTALL}")


def check_model(model: str | None) -> Check:
    if model is None:
        return Check("model", "failed", "none is set or fetched", f"Fetch one: ds4-lsp model fetch {DEFAULT}")
    from ds4_lsp.engine.gguf_header import read_header

    try:
        header = read_header(Path(model))
    except (Ds4Error, OSError) as error:
        return Check(
            "model", "failed", str(error), "Name another one: --model, DS4_MODEL, or the setting ds4.model.path"
        )
    return Check("model", "ok", f"{model} ({header.architecture}, {gigabytes(header.size)})")


def check_sampling(model: str | None) -> Check:
    """How the model is sampled where no setting says otherwise."""
    name = "sampling"
    if model is None:
        return Check(name, "warning", "not known without a model")
    from ds4_lsp.engine.gguf_header import read_header

    try:
        metadata = read_header(Path(model)).metadata
    except (Ds4Error, OSError):
        return Check(name, "warning", "not known without a readable model")
    advice, problems = recommended(metadata)
    thinks = "think" in str(metadata.get("tokenizer.chat_template", "")).lower()
    sources: dict[str, list[str]] = {}
    for setting, one in chosen(SamplingSettings(), advice, thinking=thinks).items():
        sources.setdefault(one.source, []).append(f"{setting} {one.value:g}")
    detail = "; ".join(f"{', '.join(values)} ({source})" for source, values in sources.items())
    if problems:
        return Check(name, "warning", f"{detail}; {'; '.join(problems)}", "Set ds4.sampling yourself if it matters")
    return Check(name, "ok", detail)


def check_memory(model: str | None, context: int | None, probed: dict[str, Any] | str) -> Check:
    """Whether the model and a KV cache for ``context`` tokens (default: as the server chooses) fit."""
    name = "context memory"
    if model is None or isinstance(probed, str):
        return Check(name, "warning", "not known without a model and llama.cpp")
    from ds4_lsp.engine.gguf_header import read_header
    from ds4_lsp.engine.requirements import available_ram, estimate

    try:
        header = read_header(Path(model))
    except (Ds4Error, OSError):
        return Check(name, "warning", "not known without a readable model")
    trained, default = header.trained_context, ModelSettings().context_size
    size = context or min(default, trained or default)
    if trained is not None and size > trained:
        return Check(
            name, "failed", f"{size} tokens, and the model was trained for {trained}", "Choose a smaller context"
        )
    gpus = [device for device in probed["devices"] if device["kind"] in GPU_KINDS]
    need = estimate(header, size, "f16", 512, bool(gpus)).total
    free = sum(device["free"] for device in gpus) or available_ram()
    detail = f"{size} tokens need about {gigabytes(need)} with the model, {gigabytes(free)} are free"
    if need > free:
        return Check(name, "failed", detail, "Choose a smaller ds4.model.contextSize, or a smaller model")
    return Check(name, "ok", detail)


def check_sessions(base: Path | None = None) -> Check:
    from ds4_lsp.session.store import default_base

    directory = base or default_base()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(b"x")
    except OSError as error:
        remedy = "Make it writable, or set ds4.sessions.directory"
        return Check("sessions", "failed", f"{directory} cannot be written: {error.strerror}", remedy)
    return Check("sessions", "ok", f"{directory}, {gigabytes(shutil.disk_usage(directory).free)} free")


def check_ripgrep() -> Check:
    beside = Path(sys.executable).parent / "rg"
    found = str(beside) if beside.exists() else shutil.which("rg")
    if found is None:
        return Check("ripgrep", "failed", "not found", "pip install ripgrep==14.1.0")
    try:
        done = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("ripgrep", "failed", f"{found} does not run: {error}", "pip install ripgrep==14.1.0")
    return Check("ripgrep", "ok", f"{done.stdout.split()[1]}, {found}")


def check_editors(path: str | None = None) -> Check:
    found = [name for name in EDITORS if shutil.which(name, path=path or os.environ.get("PATH"))]
    if not found:
        return Check("editors", "warning", "none on PATH", "Any LSP client will do; ds4-lsp chat needs none")
    return Check("editors", "ok", ", ".join(found))


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
