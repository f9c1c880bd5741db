"""A question about what a file says."""

from __future__ import annotations

from evals.checks import every, never_says, says, unchanged
from evals.job import Job, Vary, clean, crlf


def default_timeout(v: Vary) -> Job:
    name, value = v("client", "fetcher", "session", "transport", "gateway"), v("45", "75", "105")
    return Job(
        files={
            f"{name}.py": f'''
            """Talks to the billing service."""

            import urllib.request

            RETRIES = 4
            DEFAULT_TIMEOUT = {value}


            def get(url, timeout=DEFAULT_TIMEOUT):
                """The body behind a URL."""
                with urllib.request.urlopen(url, timeout=timeout) as reply:
                    return reply.read()
            '''
        },
        prompt=f"What is the default timeout in {name}.py?",
        check=every(unchanged(), says(rf"\b{value}\b")),
        answer=f"The default timeout is {value} seconds.",
    )


def staging_port(v: Vary) -> Job:
    folder, port = v("config", "deploy", "settings", "infra", "hosting"), v("8443", "9021", "7310")
    return Job(
        files={
            f"{folder}/servers.json": f"""
            {{
              "production": {{"host": "shop.example.org", "port": 443, "workers": 8}},
              "staging": {{"host": "staging.example.org", "port": {port}, "workers": 2}},
              "local": {{"host": "127.0.0.1", "port": 5000, "workers": 1}}
            }}
            """,
            "README.md": "# Shop\n\nThe servers are described in a JSON file.\n",
        },
        prompt="Which port does the staging server use?",
        check=every(unchanged(), says(rf"\b{port}\b"), never_says(r"\b443\b", r"\b5000\b")),
        answer=f"The staging server listens on port {port}.",
    )


def contact_person(v: Vary) -> Job:
    person, path = (
        v("Zoë Müller", "Jörg Weiß", "Åsa Lindström"),
        v("office/contacts.ini", "etc/people.ini", "team/phones.ini", "data/staff.ini"),
    )
    return Job(
        files={
            path: crlf(f"""
            [support]
            name = Petra Novák
            phone = 555-0101

            [billing]
            name = {person}
            phone = 555-0147

            [sales]
            name = Łukasz Nowak
            phone = 555-0162
            """)
        },
        prompt=f"Who do I call about billing? It should be in {path}.",
        check=every(unchanged(), says(person), never_says("Novák", "Nowak")),
        answer=f"Call {person}, 555-0147.",
    )


def exit_status(v: Vary) -> Job:
    status, name = v("3", "4", "7"), v("copy", "dump", "head", "show", "print")
    return Job(
        files={
            f"src/{name}.c": f"""
            #include <stdio.h>

            int main(int argc, char **argv)
            {{
            \tif (argc != 2) {{
            \t\tfprintf(stderr, "usage: %s FILE\\n", argv[0]);
            \t\treturn 2;
            \t}}
            \tFILE *in = fopen(argv[1], "rb");
            \tif (!in) {{
            \t\tperror(argv[1]);
            \t\treturn {status};
            \t}}
            \tint c;
            \twhile ((c = fgetc(in)) != EOF)
            \t\tputchar(c);
            \tfclose(in);
            \treturn 0;
            }}
            """
        },
        prompt=f"Which exit status does {name}.c return when the file can't be opened?",
        check=every(unchanged(), says(rf"\b{status}\b")),
        answer=f"It returns {status}.",
    )


def constant_in_table(v: Vary) -> Job:
    value, path = v("137", "263", "419"), v("tables.py", "registry.py", "lookup.py", "inventory.py", "devices.py")
    lines = ["# Generated from the device list."]
    lines += [f"DEVICE_{i:03} = {1000 + i * 7 % 991}" for i in range(90)]
    lines += [f"RETRY_BUDGET = {value}"]
    lines += [f"SENSOR_{i:03} = {3000 + i * 11 % 887}" for i in range(40)]
    return Job(
        files={path: "\n".join(lines) + "\n"},
        prompt=f"What is RETRY_BUDGET set to in {path}?",
        check=every(unchanged(), says(rf"\b{value}\b")),
        answer=f"RETRY_BUDGET is {value}.",
    )


def backup_target(v: Vary) -> Job:
    target = v("/srv/backups/nightly", "/mnt/vault/nightly", "/data/archive/nightly", "/var/spool/dumps")
    script = clean(f"""
        #!/bin/sh
        # Copies the database away.
        set -eu
        TARGET="{target}"
        STAMP=$(date +%Y-%m-%d)
        mkdir -p "$TARGET"
        pg_dump shop > "$TARGET/shop-$STAMP.sql"
        """)
    return Job(
        files={"scripts/backup.sh": script, "scripts/restore.sh": '#!/bin/sh\npsql shop < "$1"\n'},
        prompt="Where do our database backups end up? Look at the scripts.",
        check=every(unchanged(), says(target)),
        answer=f"scripts/backup.sh writes them to {target}.",
    )


JOBS = (
    default_timeout,
    staging_port,
    contact_person,
    exit_status,
    constant_in_table,
    backup_target,
)
