"""Several files that must agree."""

from __future__ import annotations

from evals.checks import compiled, every, has, json_has, lacks, node, python
from evals.job import Job, Vary


def rename_across(v: Vary) -> Job:
    old, new, module = (
        v("fetch_all", "get_rows", "load_it", "pull_data", "obtain"),
        v("load_orders", "read_orders", "list_orders"),
        v("store", "orders", "data", "source", "archive"),
    )
    return Job(
        files={
            f"{module}.py": f"def {old}():\n    return [3, 1, 2]\n",
            "report.py": f"from {module} import {old}\n\n\ndef report():\n    return sorted({old}())\n",
            "total.py": f"import {module}\n\n\ndef total():\n    return sum({module}.{old}())\n",
        },
        prompt=f"Rename {old} to {new} in all files.",
        solution={
            f"{module}.py": (f"def {old}", f"def {new}"),
            "report.py": [(f"import {old}", f"import {new}"), (f"sorted({old}", f"sorted({new}")],
            "total.py": (f"{module}.{old}", f"{module}.{new}"),
        },
        check=every(
            *(lacks(path, rf"\b{old}\b") for path in (f"{module}.py", "report.py", "total.py")),
            python("import report, total; print(report.report(), total.total())", "[1, 2, 3] 6"),
        ),
    )


def version_bump(v: Vary) -> Job:
    old, new = v("1.4.0", "0.9.2", "2.3.1"), v("1.5.0", "0.10.0", "2.4.0")
    return Job(
        files={
            "package.json": f'{{\n  "name": "grid",\n  "version": "{old}",\n  "main": "index.js"\n}}\n',
            "index.js": f'const VERSION = "{old}";\n\nmodule.exports = {{ VERSION }};\n',
            "README.md": f"# grid\n\nCurrent version: {old}\n\nA grid of boxes.\n",
        },
        prompt=f"Bump the version from {old} to {new} everywhere: package.json, index.js and README.md.",
        solution={"package.json": (old, new), "index.js": (old, new), "README.md": (old, new)},
        check=every(
            json_has("package.json", lambda d: (d["version"], d["main"]) == (new, "index.js")),
            node("console.log(require('./index.js').VERSION)", new),
            has("README.md", new.replace(".", r"\."), "A grid of boxes"),
        ),
    )


def key_in_both(v: Vary) -> Job:
    key, value = v("maxUploads", "pageSize", "batchLimit", "retryCount", "cacheHours"), v("20", "50", "12")
    return Job(
        files={
            "config/dev.json": '{\n    "debug": true,\n    "port": 3000\n}\n',
            "config/prod.json": '{\n    "debug": false,\n    "port": 80\n}\n',
        },
        prompt=f'Add "{key}": {value} to config/dev.json and config/prod.json.',
        solution={
            "config/dev.json": ('"port": 3000', f'"port": 3000,\n    "{key}": {value}'),
            "config/prod.json": ('"port": 80', f'"port": 80,\n    "{key}": {value}'),
        },
        free=("config/dev.json", "config/prod.json"),
        check=every(
            json_has("config/dev.json", lambda d: d == {"debug": True, "port": 3000, key: int(value)}),
            json_has("config/prod.json", lambda d: d == {"debug": False, "port": 80, key: int(value)}),
        ),
    )


def header_and_source(v: Vary) -> Job:
    old, new = v("sum", "add", "plus"), v("sum_ints", "add_ints", "plus_ints")
    return Job(
        files={
            "calc.h": f"#ifndef CALC_H\n#define CALC_H\n\nint {old}(int a, int b);\n\n#endif\n",
            "calc.c": f'#include "calc.h"\n\nint {old}(int a, int b)\n{{\n\treturn a + b;\n}}\n',
            "main.c": f"""
            #include <stdio.h>
            #include "calc.h"

            int main(void)
            {{
            \tprintf("%d\\n", {old}(2, 3));
            \treturn 0;
            }}
            """,
        },
        prompt=f"The C function {old} should be called {new}: header, source and main.c.",
        solution={
            "calc.h": (f"int {old}(", f"int {new}("),
            "calc.c": (f"int {old}(", f"int {new}("),
            "main.c": (f" {old}(2", f" {new}(2"),
        },
        check=every(
            *(has(path, rf"\b{new}\b") for path in ("calc.h", "calc.c", "main.c")),
            *(lacks(path, rf"\b{old}\b") for path in ("calc.h", "calc.c", "main.c")),
            compiled("main.c calc.c", "5"),
        ),
    )


def moved_constant(v: Vary) -> Job:
    name, value = v("TAX_RATE", "FEE_RATE", "VAT_RATE", "TIP_RATE", "LEVY_RATE"), v("0.19", "0.21", "0.25")
    return Job(
        files={
            "shop/__init__.py": "",
            "shop/constants.py": "CURRENCY = 'EUR'\n",
            "shop/cart.py": f"{name} = {value}\n\n\ndef tax(amount):\n    return round(amount * {name}, 2)\n",
        },
        prompt=f"Move {name} from shop/cart.py to shop/constants.py and import it from there.",
        solution={
            "shop/constants.py": f"CURRENCY = 'EUR'\n{name} = {value}\n",
            "shop/cart.py": (f"{name} = {value}\n", f"from shop.constants import {name}\n"),
        },
        free=("shop/constants.py",),
        check=every(
            lacks("shop/cart.py", rf"^{name} = "),
            python(
                f"import shop.cart as c, shop.constants as k; print(k.{name}, k.CURRENCY, c.tax(100) > 1)",
                f"{value} EUR True",
            ),
        ),
    )


JOBS = (rename_across, version_bump, key_in_both, header_and_source, moved_constant)
