"""Set-up cells that come too late: one sentence says so, and names the way back."""

import sys

import pytest
from chapter_kernel import ChapterKernel
from nbclient.exceptions import CellExecutionError
from needs import skip_without
from test_devices import fresh

from helpers import devices

RESTART = "Restart the kernel (menu Kernel, Restart Kernel) and run the cells in order."


def refused(chapter: ChapterKernel, name: str) -> str:
    """What the reader sees under this cell, which must fail: all of it, a traceback too."""
    with pytest.raises(CellExecutionError) as failed:
        chapter.run(name)
    return str(failed.value).rpartition("------------------\n")[2].strip()


def test_tensorflow_has_already_run_something():
    with ChapterKernel("02_tensorflow_in_practice") as chapter:
        chapter.run("devices-of-this-run", "setup-require")
        chapter.execute("import tensorflow as tf\ntf.ones(1)")
        for _ in range(2):
            assert refused(chapter, "setup-threads-set") == (
                f"DeviceError: Too late for this setting: TensorFlow has already started. {RESTART}"
            )
            assert refused(chapter, "setup-devices") == (
                "DeviceError: TensorFlow has already started with 1 CPU device "
                f"and cannot change that any more. {RESTART}"
            )


def test_mxnet_is_already_imported():
    with ChapterKernel("04_mxnet_in_practice") as chapter:
        chapter.run("devices-of-this-run")
        chapter.execute("from helpers.frameworks import import_quietly\nimport_quietly('mxnet')")
        assert refused(chapter, "setup-threads") == (
            "DeviceError: Too late to set OMP_NUM_THREADS and MXNET_CPU_TEMP_COPY: "
            f"MXNet is already imported, and reads such settings only then. {RESTART}"
        )


def test_in_time_and_again_the_variables_are_set(monkeypatch):
    """The negative control: before the import, and once more after it."""
    monkeypatch.delitem(sys.modules, "mxnet", raising=False)
    monkeypatch.setenv("SETTING", "before")
    devices.before_import("mxnet", SETTING="1")
    monkeypatch.setitem(sys.modules, "mxnet", object())
    devices.before_import("mxnet", SETTING="1")
    with pytest.raises(devices.DeviceError, match="Too late to set SETTING"):
        devices.before_import("mxnet", SETTING="2")
    with devices.before_start():
        pass


THREE = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
"""


def test_three_devices_are_not_taken_for_two():
    skip_without("tensorflow")
    started = fresh(f"{THREE}tf.ones(1)\ndevices.pair('tensorflow')", CUDA_VISIBLE_DEVICES="")
    told = started.stderr.splitlines()[-1]
    assert told.startswith("helpers.devices.DeviceError: TensorFlow has already started with 3 CPU")


def test_three_asked_for_after_two_changes_nothing():
    skip_without("tensorflow")
    code = f"""
from contextlib import suppress
devices.pair("tensorflow")
with suppress(RuntimeError):  # "Virtual devices cannot be modified after being initialized"
    {THREE.strip().replace(chr(10), chr(10) + "    ")}
pair = devices.pair("tensorflow")
print(tf.distribute.MirroredStrategy(pair.devices).num_replicas_in_sync, "replicas")
"""
    asked = fresh(code, CUDA_VISIBLE_DEVICES="")
    assert asked.stdout.splitlines()[-1:] == ["2 replicas"], asked.stderr
