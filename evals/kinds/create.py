"""A file that is not there yet."""

from __future__ import annotations

from evals.checks import has, json_has, node, python, shell
from evals.job import Job, Vary


def python_module(v: Vary) -> Job:
    name, function = v("temperature", "celsius", "weather", "degrees", "heat"), v("to_fahrenheit", "c_to_f", "convert")
    return Job(
        files={"README.md": "# Weather tools\n"},
        prompt=f"Create {name}.py with a function {function}(celsius) that returns degrees Fahrenheit.",
        solution={f"{name}.py": f"def {function}(celsius):\n    return celsius * 9 / 5 + 32\n"},
        check=python(f"import {name} as m; print(float(m.{function}(100)), float(m.{function}(-40)))", "212.0 -40.0"),
    )


def json_file(v: Vary) -> Job:
    path, name = (
        v("config/app.json", "settings/app.json", "conf/main.json", "etc/service.json", "data/setup.json"),
        v("atlas", "beacon", "cobalt"),
    )
    return Job(
        files={"README.md": "# App\n"},
        prompt=f'Create {path} with the keys name ("{name}"), port (4000) and tags (an empty list).',
        solution={path: f'{{\n  "name": "{name}",\n  "port": 4000,\n  "tags": []\n}}\n'},
        check=json_has(path, lambda d: d == {"name": name, "port": 4000, "tags": []}),
    )


def shell_script(v: Vary) -> Job:
    path, word = (
        v("scripts/count.sh", "bin/lines.sh", "tools/count.sh", "ops/measure.sh", "sh/tally.sh"),
        v("lines", "rows", "entries"),
    )
    return Job(
        files={"data/list.txt": "alder\nbirch\ncedar\n"},
        prompt=f'Write a shell script {path} that prints "{word}: N", N the number of lines of the file $1.',
        solution={path: f'#!/bin/sh\necho "{word}: $(wc -l < "$1" | tr -d " ")"\n'},
        check=shell(f"sh {path} data/list.txt", f"{word}: 3"),
    )


def markdown_page(v: Vary) -> Job:
    path, title = (
        v("CONTRIBUTING.md", "docs/HELPING.md", "docs/JOINING.md", "docs/TAKING-PART.md"),
        v("Contributing", "Helping", "Joining", "Taking part"),
    )
    return Job(
        files={"README.md": "# Project\n", "docs/index.md": "# Index\n"},
        prompt=f'Please add {path}: a heading "{title}", and a list of three steps: fork, change, open a pull request.',
        solution={path: f"# {title}\n\n1. Fork the repository.\n2. Change the code.\n3. Open a pull request.\n"},
        check=has(path, rf"^#+ {title}", "(?i)fork", "(?i)change", "(?i)pull request", r"^\s*([-*]|\d+\.) "),
    )


def js_module(v: Vary) -> Job:
    path, function = (
        v("src/slug.js", "lib/slug.js", "util/slug.js", "web/links.js", "text/path.js"),
        v("slugify", "toSlug", "slug"),
    )
    return Job(
        files={"package.json": '{\n  "name": "blog",\n  "private": true\n}\n'},
        prompt=f"Create {path}. It should export a function {function}(title) (CommonJS) that lowercases the title and "
        "replaces spaces with hyphens.",
        solution={
            path: f"function {function}(title) {{\n  return title.toLowerCase().replace(/ /g, '-');\n}}\n\n"
            f"module.exports = {{ {function} }};\n"
        },
        check=node(
            f"const m = require('./{path}'); const f = m.{function} || m; console.log(f('Big Old House'))",
            "big-old-house",
        ),
    )


JOBS = (python_module, json_file, shell_script, markdown_page, js_module)
