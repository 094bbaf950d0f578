"""The hand-made all-reduces of §4 are written for any number of devices: here for three. (The MXNet
chapter tries more than two itself.)"""

import subprocess
import sys

import pytest
from chapter_kernel import ChapterKernel
from needs import of_chapter, skip_without

PYTORCH = """
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing


def worker(rank, sources, file):
    group = {"world_size": 3, "rank": rank, "init_method": f"file://{file}"}
    dist.init_process_group("gloo", timeout=timedelta(seconds=30), **group)
    names = {"torch": torch, "dist": dist, "rank": rank, "world_size": 3}
    for source in sources:
        exec(source, names)
    for all_reduce in (names["all_reduce_obvious"], names["all_reduce_ring"]):
        for size in (1, 2, 7):
            tensor = 10.0**rank * torch.arange(1, size + 1)
            all_reduce(tensor)
            assert tensor.tolist() == [111 * number for number in range(1, size + 1)]
    sizes = [message.size for message in names["sent"] if message.part.startswith("chunk")]
    assert len(sizes) == 3 * 2 * (3 - 1)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sources, file = eval(sys.stdin.read())
    torch.multiprocessing.spawn(worker, (sources, file), nprocs=3)
    print("three agree")
"""

TENSORFLOW = """
import os, sys
os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
from types import SimpleNamespace

import tensorflow as tf
from helpers import pictures

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
pair = SimpleNamespace(devices=("CPU:0", "CPU:1", "CPU:2"))
for source in eval(sys.stdin.read())[0]:
    exec(source)
for all_reduce in (all_reduce_obvious, all_reduce_ring):
    for size in (1, 2, 7):
        numbers = [[10.0**rank * number for number in range(1, size + 1)] for rank in range(3)]
        tensors = at_once(tf.constant, numbers)
        all_reduce(tensors)
        for device, tensor in enumerate(tensors):
            assert tensor.device.endswith(pair.devices[device])
            assert tensor.numpy().tolist() == [111 * number for number in range(1, size + 1)]
print("three agree")
"""

CELLS = {
    "03_pytorch": [
        "s4-send-define",
        "s4-receive-define",
        "s4-obvious-define",
        "s4-exchange-define",
        "s4-ring-define",
    ],
    "02_tensorflow": [
        "s4-on-define",
        "s4-scatter-define",
        "s4-threads-define",
        "s4-send-define",
        "s4-obvious-define",
        "s4-ring-define",
    ],
}


@pytest.mark.parametrize(
    ("chapter", "program"), [("03_pytorch", PYTORCH), ("02_tensorflow", TENSORFLOW)]
)
def test_three_devices(chapter, program, tmp_path):
    skip_without(*of_chapter(chapter))
    cells = ChapterKernel(chapter).sources
    sources = [cells[name].removeprefix("%%px\n") for name in CELLS[chapter]]
    script = tmp_path / "three.py"
    script.write_text(program)
    told = subprocess.run(
        [sys.executable, script],
        input=repr((sources, str(tmp_path / "group"))),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert told.stdout == "three agree\n", told.stderr
