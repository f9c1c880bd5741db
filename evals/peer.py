"""``make eval-peer``: the same jobs with the same model file by mini-swe-agent, against llama-cpp-python's own server.

Run in the environment that ``evals.install_peer`` makes. The peer has the prompts and the way of calling that it comes
with for models without tool calls; jobs, checks, limits and the rule for commands are those of ``make eval``. One reply
more is allowed, since it must say that it is done by a command. Selections are not passed on: it has no notion of them.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evals import report
from evals.after import After, fill, snapshot
from evals.approve import stays_inside
from evals.damage import damage
from evals.job import Job
from evals.results import Limits, Result, Run
from evals.suites import SUITES, chosen

os.environ |= {
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}


@contextlib.contextmanager
def served(model: Path, limits: Limits, log: Path) -> Iterator[str]:
    """llama-cpp-python's server on a free port; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(model), "--n_ctx", str(limits.context)]
    command += ["--port", str(port), "--n_threads", str(os.cpu_count() or 2)]
    with log.open("w") as errors:
        # As the product's engine has it: threads that wait do not spin.
        process = subprocess.Popen(command, stdout=errors, stderr=errors, env=os.environ | {"GOMP_SPINCOUNT": "1000"})
        try:
            address = f"http://127.0.0.1:{port}/v1"
            while not _answers(f"{address}/models"):
                if process.poll() is not None:
                    raise SystemExit(f"llama_cpp.server ended: {log.read_text()[-2000:]}")
                time.sleep(0.5)
            yield address
        finally:
            process.terminate()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def play(job: Job, folder: Path, address: str, limits: Limits, kept: Path) -> Result:
    import litellm
    import yaml
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.config import builtin_config_dir
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.exceptions import LimitsExceeded
    from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel

    litellm.suppress_debug_info = True
    counts = {"read": 0, "written": 0, "calls": 0, "failed": 0, "rounds": 0}

    class Model(LitellmTextbasedModel):  # type: ignore[misc]
        def query(self, messages: list[dict[str, str]], **options: Any) -> dict[str, Any]:
            if counts["written"] >= limits.tokens:
                raise LimitsExceeded({"role": "exit", "content": "", "extra": {"exit_status": "tokens"}})
            answer: dict[str, Any] = super().query(messages, **options)
            return answer

        def _query(self, messages: list[dict[str, str]], **options: Any) -> Any:
            left = max(1, limits.tokens - counts["written"])
            response = super()._query(messages, **options, max_tokens=left)
            counts["read"] += response.usage.prompt_tokens
            counts["written"] += response.usage.completion_tokens
            counts["rounds"] += 1
            return response

        def _parse_actions(self, response: Any) -> Any:
            try:
                return super()._parse_actions(response)
            except Exception:
                counts["calls"] += 1
                counts["failed"] += 1
                raise

    class Place(LocalEnvironment):  # type: ignore[misc]
        def execute(self, action: dict[str, Any], cwd: str = "", **options: Any) -> dict[str, Any]:
            counts["calls"] += 1
            if not stays_inside(action.get("command", ""), folder):
                counts["failed"] += 1
                return {"output": "denied: stay in this folder", "returncode": 1, "exception_info": ""}
            output: dict[str, Any] = super().execute(action, cwd, **options)
            counts["failed"] += output["returncode"] != 0
            return output

    fill(folder, job)
    config = yaml.safe_load((Path(builtin_config_dir) / "mini_textbased.yaml").read_text())
    options = config["model"].pop("model_kwargs", {})
    options |= {"api_base": address, "api_key": "none", "temperature": 0.0, "timeout": 3600}
    known = {"model_name": "openai/local", "cost_tracking": "ignore_errors", "model_kwargs": options}
    settings = {key: value for key, value in config["agent"].items() if key in ("system_template", "instance_template")}
    agent = DefaultAgent(
        Model(**{**config["model"], **known}),
        Place(cwd=str(folder), env=config["environment"].get("env", {})),
        **settings,
        step_limit=limits.rounds + 1,
        cost_limit=0.0,
    )
    note = ""
    try:
        end = agent.run(job.prompt)
    except Exception as error:
        end, note = {"exit_status": "error"}, f"{type(error).__name__}: {error}"
    (kept / f"{job.kind}-{job.name}.json").write_text(json.dumps(agent.messages, indent=1, default=str))
    said = [str(message.get("content") or "") for message in agent.messages if message["role"] == "assistant"]
    left = snapshot(folder)
    why = job.check(After(folder, "\n\n".join([*said, str(end.get("submission", ""))]), job.start()))
    ended = {"Submitted": "end", "LimitsExceeded": "rounds", "RepeatedFormatError": "stopped"}
    return Result(
        job=job.name,
        kind=job.kind,
        seed=job.seed,
        solved=why is None,
        why=why or "",
        damage=damage(job, left),
        evaluated=counts["read"],
        cached=0,
        generated=counts["written"],
        rounds=counts["rounds"],
        calls=counts["calls"],
        failed=counts["failed"],
        ended=ended.get(end.get("exit_status", ""), end.get("exit_status", "")),
        note=note,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="evals.peer", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--first", type=int, metavar="N")
    parser.add_argument("--tokens", type=int, default=Limits.tokens)
    parser.add_argument("--rounds", type=int, default=Limits.rounds)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--transcripts", type=Path, default=Path("build-evals") / "peer")
    args = parser.parse_args()
    limits = Limits(args.tokens, args.rounds)
    args.transcripts.mkdir(parents=True, exist_ok=True)
    about = {"model": args.model.stem, "commit": "mini-swe-agent", "temperature": 0.0, "tokens": limits.tokens}
    about |= {"rounds": limits.rounds + 1, "context": limits.context, "date": datetime.date.today().isoformat()}
    run = Run(about)
    with tempfile.TemporaryDirectory(prefix="ds4-lsp-peer-") as name:
        folder = Path(name).resolve() / "workspace"
        with served(args.model, limits, args.transcripts / "server.log") as address:
            for job in chosen(SUITES["jobs"], (0,), args.only)[: args.first]:
                result = play(job, folder, address, limits, args.transcripts)
                run.results.append(result)
                print(report.line(result), flush=True)
                if args.json:
                    args.json.write_text(run.as_json(), encoding="utf-8")
    print(report.summary(run.results))


if __name__ == "__main__":
    main()
