"""Several places of one file."""

from __future__ import annotations

from evals.checks import compiled, every, json_has, lacks, python, shell, text_is
from evals.job import Job, Vary, crlf


def rename_function(v: Vary) -> Job:
    name, old, new = (
        v("geometry", "shapes", "plots", "boxes", "tiles"),
        v("calc", "do_it", "compute", "work_out", "get"),
        v("area", "surface", "extent"),
    )
    return Job(
        files={
            f"{name}.py": f"""
            def {old}(width, height):
                return width * height


            def double(width, height):
                return 2 * {old}(width, height)


            def report(width, height):
                print("size:", {old}(width, height))
            """
        },
        prompt=f"Rename the function {old} to {new} everywhere in {name}.py.",
        solution={
            f"{name}.py": [
                (f"def {old}", f"def {new}"),
                (f"2 * {old}(", f"2 * {new}("),
                (f'"size:", {old}(', f'"size:", {new}('),
            ]
        },
        check=every(
            lacks(f"{name}.py", rf"\b{old}\b"),
            python(f"import {name} as m; m.report(2, 3); print(m.{new}(4, 5), m.double(1, 2))", "size: 6\n20 4"),
        ),
    )


def two_json_values(v: Vary) -> Job:
    path, width, height = (
        v("window.json", "ui/window.json", "view.json", "screen.json", "layout/main.json"),
        v("1280", "1440", "1600"),
        v("720", "900", "800"),
    )
    return Job(
        files={
            path: """
            {
              "title": "Plans",
              "width": 800,
              "height": 600,
              "theme": {"dark": false, "accent": "#2266aa"},
              "recent": ["a.txt", "b.txt"]
            }
            """
        },
        prompt=f"Make the window {width} wide and {height} high in {path}.",
        solution={path: [('"width": 800', f'"width": {width}'), ('"height": 600', f'"height": {height}')]},
        check=json_has(
            path,
            lambda d: (
                (d["width"], d["height"], d["theme"]["dark"], d["recent"])
                == (int(width), int(height), False, ["a.txt", "b.txt"])
            ),
        ),
    )


def struct_field(v: Vary) -> Job:
    old, new = v("len", "num", "sz"), v("length", "count", "size")
    return Job(
        files={
            "stack.c": f"""
            #include <stdio.h>

            struct stack {{
            \tint items[8];
            \tint {old};
            }};

            static void push(struct stack *s, int item)
            {{
            \ts->items[s->{old}] = item;
            \ts->{old}++;
            }}

            int main(void)
            {{
            \tstruct stack s = {{ {{0}}, 0 }};
            \tpush(&s, 7);
            \tpush(&s, 9);
            \tprintf("%d %d\\n", s.{old}, s.items[1]);
            \treturn 0;
            }}
            """
        },
        prompt=f"In stack.c, rename the struct member {old} to {new}, with all its uses.",
        solution={
            "stack.c": [
                (f"int {old};", f"int {new};"),
                (f"s->items[s->{old}]", f"s->items[s->{new}]"),
                (f"s->{old}++", f"s->{new}++"),
                (f"s.{old},", f"s.{new},"),
            ]
        },
        check=every(lacks("stack.c", rf"\b{old}\b"), compiled("stack.c", "2 9")),
    )


def ini_sections(v: Vary) -> Job:
    path, host = (
        v("hosts.ini", "cluster.ini", "nodes.ini", "machines.ini", "net/servers.ini"),
        v("10.0.0.9", "10.1.0.4", "10.2.0.7"),
    )
    text = crlf("""
        [web]
        host = 192.168.1.20
        port = 80

        [api]
        host = 192.168.1.20
        port = 8080

        [db]
        host = 192.168.1.31
        port = 5432
        """)
    return Job(
        files={path: text},
        prompt=f"web and api move to {host}. Update {path}; db stays where it is.",
        solution={
            path: [
                ("[web]\r\nhost = 192.168.1.20", f"[web]\r\nhost = {host}"),
                ("[api]\r\nhost = 192.168.1.20", f"[api]\r\nhost = {host}"),
            ]
        },
        check=text_is(path, text.replace("192.168.1.20", host)),
    )


def shell_quotes(v: Vary) -> Job:
    path, name = v("pack.sh", "collect.sh", "bundle.sh", "gather.sh", "listing.sh"), v("SOURCE", "INPUT", "FOLDER")
    return Job(
        files={
            path: f"""
            #!/bin/sh
            # Counts the files of a folder.
            {name}="$1"
            if [ ! -d ${name} ]; then
            \techo "no folder"
            \texit 1
            fi
            ls ${name} | wc -l | tr -d ' '
            """
        },
        prompt=f"{path} breaks for folders with spaces. Quote ${name} where it is used.",
        solution={path: [(f"-d ${name} ]", f'-d "${name}" ]'), (f"ls ${name} |", f'ls "${name}" |')]},
        check=shell(
            f'd=$(mktemp -d) && mkdir "$d/a b" && touch "$d/a b/x" "$d/a b/y" && sh {path} "$d/a b"; rm -rf "$d"', "2"
        ),
    )


JOBS = (rename_function, two_json_values, struct_field, ini_sections, shell_quotes)
