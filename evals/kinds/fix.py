"""Something fails when it is run: run it, mend it."""

from __future__ import annotations

from evals.checks import compiled, every, has, node, python, runs, shell
from evals.job import Job, Vary


def failing_test(v: Vary) -> Job:
    name = v("prices", "discounts", "fees", "taxes", "rates")
    return Job(
        files={
            f"{name}.py": """
            def net(gross, rate):
                return round(gross / (1 + rate), 2)


            def gross(net, rate):
                return round(net * (1 - rate), 2)
            """,
            f"test_{name}.py": f"""
            from {name} import gross, net

            assert net(119, 0.19) == 100, net(119, 0.19)
            assert gross(100, 0.19) == 119, gross(100, 0.19)
            print("ok")
            """,
        },
        prompt=f"Run python3 test_{name}.py. It fails: fix {name}.py so that it passes.",
        solution={f"{name}.py": ("net * (1 - rate)", "net * (1 + rate)")},
        check=python(f"import {name} as m, test_{name}; print(m.gross(50, 0.1), m.net(119, 0.19))", "ok\n55.0 100.0"),
    )


def syntax_error(v: Vary) -> Job:
    path, name = v("menu.py", "board.py", "table.py", "kitchen.py", "card.py"), v("soup", "bread", "salad")
    return Job(
        files={
            path: f"""
            DISHES = {{"{name}": 4, "tea": 2}}


            def price(dish)
                return DISHES[dish]


            print(price("{name}") + price("tea"))
            """
        },
        prompt=f"python3 {path} gives an error. Find out why and fix it.",
        solution={path: ("def price(dish)\n", "def price(dish):\n")},
        check=runs("python3", path, prints="6"),
    )


def js_crash(v: Vary) -> Job:
    path, field = v("app.js", "main.js", "start.js", "list.js", "print.js"), v("users", "guests", "members")
    return Job(
        files={
            path: f"""
            const data = require("./data.json");

            function names() {{
              return data.{field[:-1]}.map((one) => one.name);
            }}

            console.log(names().join(", "));
            """,
            "data.json": f'{{"{field}": [{{"name": "Ada"}}, {{"name": "Grace"}}]}}\n',
        },
        prompt=f"`node {path}` crashes. Please run it and fix the bug (data.json is right).",
        solution={path: (f"data.{field[:-1]}.map", f"data.{field}.map")},
        check=node(f"require('./{path}')", "Ada, Grace"),
    )


def c_does_not_compile(v: Vary) -> Job:
    path, name = v("sum.c", "mean.c", "total.c", "add.c", "tally.c"), v("values", "numbers", "samples")
    return Job(
        files={
            path: f"""
            #include <stdio.h>

            int main(void)
            {{
            \tint {name}[] = {{ 4, 8, 15 }};
            \tint total = 0;
            \tfor (int i = 0; i < 3; i++)
            \t\ttotal += {name}[i]
            \tprintf("%d\\n", total);
            \treturn 0;
            }}
            """
        },
        prompt=f"cc {path} does not compile. Fix it.",
        solution={path: (f"total += {name}[i]\n", f"total += {name}[i];\n")},
        check=compiled(path, "27"),
        artefacts=("a.out", "*.o", "sum", "mean", "total"),
    )


def shell_exit(v: Vary) -> Job:
    path, folder = v("setup.sh", "prepare.sh", "init.sh", "ready.sh", "begin.sh"), v("cache", "work", "build")
    return Job(
        files={
            path: f"""
            #!/bin/sh
            # Makes the folder and says how many files are in it.
            set -e
            mkdir {folder}
            ls {folder} | wc -l | tr -d ' '
            """,
        },
        prompt=f"sh {path} works once and fails the second time, because the folder is there already. Fix the script.",
        solution={path: (f"mkdir {folder}", f"mkdir -p {folder}")},
        check=every(
            has(path, "^set -e"),
            shell(
                f"d=$(mktemp -d) && cp {path} $d && cd $d && sh {path} && sh {path}; s=$?; rm -rf $d; exit $s", "0\n0"
            ),
        ),
    )


JOBS = (failing_test, syntax_error, js_crash, c_does_not_compile, shell_exit)
