"""One change at one place; every other line stays as it is."""

from __future__ import annotations

from evals.checks import compiled, json_has, node, python, text_is
from evals.job import Job, Vary, clean, crlf


def raise_limit(v: Vary) -> Job:
    name, old, new = v("limits", "quotas", "policy", "bounds", "rules"), v("3", "4", "2"), v("5", "6", "9")
    return Job(
        files={
            f"{name}.py": f"""
            MAX_RETRIES = {old}
            MAX_ITEMS = 100


            def allowed(count):
                return count < MAX_ITEMS
            """
        },
        prompt=f"Change MAX_RETRIES to {new} in {name}.py.",
        solution={f"{name}.py": (f"MAX_RETRIES = {old}", f"MAX_RETRIES = {new}")},
        check=python(f"import {name} as m; print(m.MAX_RETRIES, m.MAX_ITEMS, m.allowed(99))", f"{new} 100 True"),
    )


def off_by_one(v: Vary) -> Job:
    name = v("ranges", "series", "counting", "numbers", "sums", "totals")
    return Job(
        files={
            f"{name}.py": '''
            """Sums of whole numbers."""


            def sum_to(n):
                """The sum of 1 to n, n included."""
                total = 0
                for i in range(1, n):
                    total += i
                return total


            def sum_of(values):
                total = 0
                for value in values:
                    total += value
                return total
            '''
        },
        prompt=f"sum_to in {name}.py is off by one: sum_to(3) gives 3 and should give 6. Please fix it.",
        solution={f"{name}.py": ("range(1, n)", "range(1, n + 1)")},
        check=python(f"import {name} as m; print(m.sum_to(3), m.sum_to(10), m.sum_of([1, 2]))", "6 55 3"),
    )


def json_value(v: Vary) -> Job:
    path, level = (
        v("config/logging.json", "app/settings.json", "etc/service.json", "conf/log.json", "journal.json"),
        v("debug", "warning", "error"),
    )
    return Job(
        files={
            path: """
            {
                "name": "inventory",
                "level": "info",
                "handlers": ["file", "console"],
                "rotate": {"megabytes": 10, "keep": 5}
            }
            """
        },
        prompt=f'Set the level to "{level}" in {path}',
        solution={path: ('"level": "info"', f'"level": "{level}"')},
        check=json_has(path, lambda d: d["level"] == level and d["rotate"] == {"megabytes": 10, "keep": 5}),
    )


def drop_ini_line(v: Vary) -> Job:
    path, key = (
        v("server.ini", "gateway.ini", "worker.ini", "proxy.ini", "daemon.ini"),
        v("debug", "verbose", "profile"),
    )
    text = crlf(f"""
        [server]
        host = 0.0.0.0
        port = 8080
        {key} = true
        workers = 4

        [cache]
        size = 64
        """)
    return Job(
        files={path: text},
        prompt=f"Remove the line with {key} from {path}.",
        solution={path: (f"{key} = true\r\n", "")},
        check=text_is(path, text.replace(f"{key} = true\r\n", "")),
    )


def heading(v: Vary) -> Job:
    old, new = v("Über uns", "Größenangaben", "Prüfung", "Äußeres"), v("Wer wir sind", "Maße", "Kontrolle")
    text = clean(f"""
        # Handbuch

        ## {old}

        Wir sind ein kleines Büro in Köln.

        ## Öffnungszeiten

        Täglich von 9 bis 17 Uhr.
        """)
    return Job(
        files={"handbuch.md": text},
        prompt=f'In handbuch.md, rename the heading "{old}" to "{new}".',
        solution={"handbuch.md": (f"## {old}", f"## {new}")},
        check=text_is("handbuch.md", text.replace(f"## {old}", f"## {new}")),
    )


def c_bound(v: Vary) -> Job:
    path = v("src/clamp.c", "lib/clamp.c", "core/clamp.c", "math/limit.c", "clamp.c")
    return Job(
        files={
            path: """
            #include <stdio.h>

            static int clamp(int value, int low, int high)
            {
            \tif (value < low)
            \t\treturn low;
            \tif (value > high)
            \t\treturn low;
            \treturn value;
            }

            int main(void)
            {
            \tprintf("%d %d %d\\n", clamp(-5, 0, 9), clamp(4, 0, 9), clamp(50, 0, 9));
            \treturn 0;
            }
            """
        },
        prompt=f"clamp in {path} returns the wrong bound for values above high. Fix that.",
        solution={path: ("value > high)\n\t\treturn low;", "value > high)\n\t\treturn high;")},
        check=compiled(path, "0 4 9"),
    )


def js_greeting(v: Vary) -> Job:
    name, word = v("greet", "welcome", "hello", "salute", "address"), v("Hello", "Good morning", "Welcome")
    return Job(
        files={
            f"{name}.js": f"""
            function {name}(name) {{
              return `Hi, ${{name}}!`;
            }}

            function farewell(name) {{
              return `Bye, ${{name}}!`;
            }}

            module.exports = {{ {name}, farewell }};
            """
        },
        prompt=f'Make {name}() in {name}.js say "{word}" instead of "Hi".',
        solution={f"{name}.js": ("`Hi, ", f"`{word}, ")},
        check=node(
            f"const m = require('./{name}.js'); console.log(m.{name}('Ada') + m.farewell('Ada'))",
            f"{word}, Ada!Bye, Ada!",
        ),
    )


def line_in_long_file(v: Vary) -> Job:
    path, value = v("devices.py", "catalog.py", "stations.py", "units.py", "fleet.py"), v("9999", "4242", "7777")
    lines = [f"UNIT_{i:03} = {1000 + i * 13 % 977}" for i in range(800)]
    return Job(
        files={path: "\n".join(lines) + "\n"},
        prompt=f"Set UNIT_512 to {value} in {path}. It is on line 513.",
        solution={path: (lines[512], f"UNIT_512 = {value}")},
        check=python(f"import {path[:-3]} as m; print(m.UNIT_512, m.UNIT_511, m.UNIT_799)", _values(value, 511, 799)),
    )


def _values(first: str, *units: int) -> str:
    return " ".join([first, *(str(1000 + i * 13 % 977) for i in units)])


def selected_condition(v: Vary) -> Job:
    path = v("access.py", "gate.py", "doors.py", "entry.py", "visitors.py")
    return Job(
        files={
            path: '''
            """Who may come in."""

            ADMINS = {"root", "ada"}


            def may_enter(user, hour):
                if user in ADMINS:
                    return True
                return 8 < hour < 18


            def may_leave(user, hour):
                return True
            '''
        },
        prompt="Opening hours start at 8 sharp, so 8 itself should be allowed too.",
        context=[(path, 6, 9)],
        solution={path: ("8 < hour", "8 <= hour")},
        check=python(
            f"import {path[:-3]} as m; print([m.may_enter('x', h) for h in (7, 8, 17, 18)], m.may_enter('ada', 3))",
            "[False, True, True, False] True",
        ),
    )


JOBS = (
    raise_limit,
    off_by_one,
    json_value,
    drop_ini_line,
    heading,
    c_bound,
    js_greeting,
    line_in_long_file,
    selected_condition,
)
