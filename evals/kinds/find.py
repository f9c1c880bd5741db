"""Something is somewhere in the workspace: where?"""

from __future__ import annotations

from evals.checks import every, never_says, says, unchanged
from evals.job import Job, Vary, clean


def defining_file(v: Vary) -> Job:
    wanted, folder = (
        v("parse_header", "split_record", "read_frame", "unpack_row", "take_token"),
        v("wire", "codec", "net", "format", "stream"),
    )
    return Job(
        files={
            "main.py": f"from {folder}.decode import {wanted}\n\nprint({wanted}(b'x'))\n",
            f"{folder}/__init__.py": "",
            f"{folder}/encode.py": "def encode(value):\n    return repr(value).encode()\n",
            f"{folder}/decode.py": f"def decode(d):\n    return d\n\n\ndef {wanted}(data):\n    return data[0]\n",
        },
        prompt=f"Where is {wanted} defined?",
        check=every(unchanged(), says(r"decode\.py"), never_says(r"encode\.py")),
        answer=f"{wanted} is defined in {folder}/decode.py, line 5.",
    )


def todo_line(v: Vary) -> Job:
    path, what = (
        v("src/queue.js", "lib/cache.js", "app/store.js", "core/buffer.js", "js/stack.js"),
        v("retry", "timeout", "backoff"),
    )
    return Job(
        files={
            path: f"""
            const items = [];

            function push(item) {{
              items.push(item);
            }}

            function pop() {{
              // TODO: {what}
              return items.shift();
            }}

            module.exports = {{ push, pop }};
            """,
            "index.js": "const { push } = require('./" + path.removesuffix(".js") + "');\npush(1);\n",
        },
        prompt="There is one TODO left in the code. Which file and line is it on?",
        check=every(unchanged(), says(path.split("/")[1].replace(".", r"\."), r"\b8\b")),
        answer=f"{path}, line 8.",
    )


def users_of_variable(v: Vary) -> Job:
    variable = v("API_TOKEN", "DB_PASSWORD", "MAIL_KEY", "SMS_SECRET")
    one, two = v("upload", "publish", "send", "deliver", "push"), v("report", "digest", "audit", "summary", "review")
    return Job(
        files={
            ".gitignore": "node_modules/\n",
            f"{one}.py": f"import os\n\nKEY = os.environ['{variable}']\n",
            f"jobs/{two}.py": f"import os\n\n\ndef key():\n    return os.environ.get('{variable}', '')\n",
            "jobs/clean.py": "import shutil\n\nshutil.rmtree('tmp', ignore_errors=True)\n",
            "node_modules/dotenv/index.js": f"console.log(process.env.{variable});\n",
        },
        prompt=f"Which of our Python files use the environment variable {variable}?",
        check=every(unchanged(), says(rf"{one}\.py", rf"{two}\.py"), never_says(r"clean\.py", "node_modules")),
        answer=f"{one}.py and jobs/{two}.py.",
    )


def raising_function(v: Vary) -> Job:
    wanted = v("find_station", "lookup_route", "pick_vehicle", "choose_driver", "match_ticket")
    blocks = [f"def step_{i:03}(value):\n    return value + {i}\n\n\n" for i in range(30)]
    body = "    if key not in table:\n        raise LookupError(key)\n    return table[key]\n\n\n"
    blocks.insert(22, f"def {wanted}(table, key):\n{body}")
    return Job(
        files={"network.py": "".join(blocks).rstrip() + "\n", "notes.md": "LookupError means that a name is wrong.\n"},
        prompt="Which function in network.py raises LookupError?",
        check=every(unchanged(), says(rf"\b{wanted}\b")),
        answer=f"{wanted} does.",
    )


def german_word(v: Vary) -> Job:
    word, page = (
        v("Rückgaberecht", "Gewährleistung", "Kündigungsfrist"),
        v("vertrag", "bedingungen", "regeln", "ordnung", "kauf"),
    )
    text = clean(f"""
        # Für Kunden

        Es gilt ein {word} von 30 Tagen.
        """)
    return Job(
        files={
            "docs/start.md": "# Willkommen\n\nSchön, dass Sie da sind.\n",
            f"docs/de/{page}.md": text,
            "docs/en/terms.md": "# Terms\n\nSee the German text.\n",
        },
        prompt=f"Which page mentions {word}, and how many days is it?",
        check=every(unchanged(), says(rf"{page}\.md", r"\b30\b")),
        answer=f"docs/de/{page}.md: 30 days.",
    )


JOBS = (defining_file, todo_line, users_of_variable, raising_function, german_word)
