"""A kernel without a front end, for the tests of the worker processes."""

import contextlib
import os
import time
import uuid

import psutil
from jupyter_client.manager import start_new_kernel
from processes import processes_with

from helpers import devices

MARK = "TEST_WORKERS_MARK"  # each kernel has a value of its own, and all its processes inherit it

PAIR = devices.Pair("pytorch", ("process 0", "process 1"), True, "simulated")
START = f"""
from helpers import devices, workers
workers.start(devices.Pair(*{(PAIR.framework, PAIR.devices, PAIR.simulated, PAIR.sentence)!r}))
"""
JOIN = """%%px
import os
from datetime import timedelta
import torch
import torch.distributed as dist
rank, limit = int(os.environ["RANK"]), timedelta(seconds=60)
dist.init_process_group("gloo", os.environ["INIT_METHOD"], limit, world_size=2, rank=rank)
toy = torch.ones(4)
dist.all_reduce(toy)
"""
HANG = "%%px\nimport time\nprint('begun', flush=True)\ntime.sleep(600)"


class Notebook:
    """A kernel without a front end: runs cells, returns their text."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self.manager, self.client = start_new_kernel(env=os.environ | {MARK: self.mark})

    @property
    def pid(self) -> int:
        return self.manager.provisioner.pid

    def run(self, code: str, seconds: float = 60) -> str:
        texts = []

        def collect(message: dict) -> None:
            content = message["content"]
            texts.append(content.get("text") or content.get("data", {}).get("text/plain") or "")
            if message["msg_type"] == "error":
                texts.append("\n".join(content["traceback"]))

        reply = self.client.execute_interactive(code, timeout=seconds, output_hook=collect)
        if reply["content"]["status"] == "aborted":
            # The cell came while an interrupted one was still ending, and was dropped.
            return self.run(code, seconds)
        return "".join(texts)

    def send(self, code: str) -> None:
        self.client.execute(code)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def left(self) -> list[str]:
        """Command lines of the processes that the kernel has started and that still run."""
        found = []
        for process in processes_with(MARK, self.mark):
            with contextlib.suppress(psutil.Error):  # it ended meanwhile
                if process.pid != self.pid:
                    found.append(" ".join(process.cmdline()[:4]))
        return found

    def left_in_the_end(self, seconds: float = 30) -> list[str]:
        """What is still left after ``seconds``; the answer comes as soon as nothing is."""
        deadline = time.monotonic() + seconds
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.left()
