"""The client's loop need not be the main thread's."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ds4_lsp.ports import Forced


def test_a_loop_in_another_thread_than_the_main_one_will_do(tiny_model: Any, new_driver: Any) -> None:
    async def session() -> str:
        driver = new_driver()
        try:
            await driver.load(tiny_model)
            return (await driver.generate([1, 2], 9, forced=Forced("hello"))).text
        finally:
            await driver.client.close()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, session()).result() == "hello"
