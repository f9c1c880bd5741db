"""Something fails when it is run: run it, mend it."""

from __future__ import annotations

from evals.checks import python
from evals.job import Job, Vary


def failing_test(v: Vary) -> Job:
    name = v("prices", "discounts", "fees")
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


JOBS = (failing_test,)
