"""The article's snippets: each fault fails or misleads as the chapters say; each repaired one runs.

``article/original`` has the snippets letter for letter, ``article/repaired`` with as few changes as
possible. A fault is shown on the original with nothing repaired but the faults that come before it.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
ORIGINAL = ROOT / "tests" / "article" / "original"
REPAIRED = ROOT / "tests" / "article" / "repaired"
SECONDS = 120


class Outcome(NamedTuple):
    """How a piece of code ended; ``error`` is "Class: message" of its exception, or empty."""

    printed: str
    warned: list[str]
    error: str


def run(pieces: dict[str, str], before: str = "", gpus: bool = False) -> dict[str, Outcome]:
    """Run the pieces, each with names of its own, one after the other in one fresh process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    environment["OMP_NUM_THREADS"] = "1"  # waiting threads are slow on a busy machine
    if not gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    process = subprocess.run(
        [sys.executable, "tests/article/attempt.py"],
        input=json.dumps({"before": before, "pieces": pieces}),
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        env=environment,
        timeout=SECONDS,
    )
    assert process.returncode == 0, process.stderr
    outcomes = json.loads(process.stdout.splitlines()[-1])
    return {name: Outcome(**outcome) for name, outcome in outcomes.items()}


def original(name: str) -> str:
    return (ORIGINAL / name).read_text(encoding="utf-8")


def names_that_were_comments(code: str) -> list[str]:
    return [line for line in code.splitlines() if line.isidentifier() and not line.isascii()]


def with_marks(name: str) -> str:
    """The original snippet with nothing repaired but the ``#`` of its comments."""
    code = original(name)
    for line in names_that_were_comments(code):
        code = code.replace(f"\n{line}\n", f"\n# {line}\n")
    return code


def need(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed here, so its part of the article cannot run.")


# The data that the article leaves undefined, for the pieces that get so far.
IMAGES = """
from helpers import datasets
images = datasets.fashion_mnist()
"""
TRAIN_DATASET = """
import tensorflow as tf
rows = (images.train_images, images.train_labels)
train_dataset = tf.data.Dataset.from_tensor_slices(rows).batch(128)
"""
TRAIN_LOADER = """
import torch
from torch.utils.data import DataLoader, TensorDataset
rows = TensorDataset(torch.tensor(images.train_images), torch.tensor(images.train_labels))
train_loader = DataLoader(rows, batch_size=128)
"""
NUMPY_BOOL = """
import numpy as np
if "bool" not in np.__dict__:
    np.bool = bool
"""
TRAIN_DATA = f"""{NUMPY_BOOL}
from mxnet import gluon
rows = gluon.data.ArrayDataset(images.train_images, images.train_labels)
train_data = gluon.data.DataLoader(rows, batch_size=128)
"""


@pytest.mark.parametrize(
    ("name", "count"), [("tensorflow_train.py", 1), ("pytorch_train.py", 6), ("mxnet_train.py", 4)]
)
def test_a_comment_that_lost_its_mark_is_an_undefined_name(name, count):
    lines = names_that_were_comments(original(name))
    assert len(lines) == count
    for line in lines:
        with pytest.raises(NameError, match=f"^name '{line}' is not defined$"):
            exec(line, {})


# TensorFlow


@pytest.fixture(scope="module")
def tensorflow():
    need("tensorflow")
    train = with_marks("tensorflow_train.py")
    late = """
import unittest.mock
import tensorflow as tf
from tensorflow.python.eager import context
tf.constant(1)  # starts the runtime
gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
unittest.mock.patch.object(context.context(), "_physical_devices", [gpu]).start()
"""
    return run(
        {
            "detect": original("tensorflow_detect.py"),
            "comment": original("tensorflow_train.py"),
            "dataset": train,
            "train": TRAIN_DATASET + train,
            "old names": "import tensorflow as tf\nold, new = tf.config.experimental, tf.config\n"
            "print(old.list_physical_devices is new.list_physical_devices)\n"
            "print(old.list_logical_devices is new.list_logical_devices)\n"
            "print(hasattr(new, 'set_memory_growth'))",
            "detect too late": late + original("tensorflow_detect.py"),  # last: it pretends a GPU
        },
        before=IMAGES,
    )


def test_tensorflow_detection_prints_nothing_without_a_gpu(tensorflow):
    assert tensorflow["detect"] == Outcome("", [], "")


def test_tensorflow_memory_growth_set_too_late_is_only_printed(tensorflow):
    message = "Physical devices cannot be modified after being initialized\n"
    assert tensorflow["detect too late"] == Outcome(message, [], "")


def test_tensorflow_old_names_still_work_and_one_has_no_new_name(tensorflow):
    assert tensorflow["old names"].printed == "True\nTrue\nFalse\n"


def test_tensorflow_training_stops_at_the_lost_comment_mark(tensorflow):
    assert tensorflow["comment"].error == "NameError: name '设置分布策略' is not defined"


def test_tensorflow_training_has_no_train_dataset(tensorflow):
    assert tensorflow["dataset"].error == "NameError: name 'train_dataset' is not defined"


def test_tensorflow_strategy_without_gpus_trains_on_one_device_and_does_not_warn(tensorflow):
    train = tensorflow["train"]
    assert train.error == ""
    assert train.printed.startswith("Number of devices: 1\n") and "Epoch 5/5" in train.printed
    assert not re.search("device|replica|GPU|strategy", str(train.warned))


def test_tensorflow_training_warns_of_input_shape_and_of_a_shuffle_nobody_passed(tensorflow):
    input_shape, *others = tensorflow["train"].warned
    assert input_shape.startswith("Do not pass an `input_shape`/`input_dim` argument to a layer. ")
    if sys.version_info >= (3, 11):  # Keras 3.12, the last one for Python 3.10, does not say it
        (shuffle,) = others
        assert shuffle.startswith("`shuffle=True` was passed, but will be ignored")


@pytest.fixture(scope="module")
def tensorflow_on_two():
    """The article's snippet on two simulated devices, then pieces with its strategy and model."""
    need("tensorflow")
    train = with_marks("tensorflow_train.py")
    train = train.replace("MirroredStrategy()", "MirroredStrategy(pair.devices)")
    train = train.replace("epochs=5", "epochs=1")  # for speed
    pair = "from helpers import devices\npair = devices.pair('tensorflow')\n"
    distribute = """
local = strategy.experimental_local_results
x, y = next(iter(strategy.experimental_distribute_dataset(train_dataset)))
"""
    gradients = """
@tf.autograph.experimental.do_not_convert
def gradient(x, y):
    with tf.GradientTape() as tape:
        loss = tf.keras.losses.sparse_categorical_crossentropy(y, model(x))
        loss = tf.reduce_mean(loss)
    return tape.gradient(loss, model.layers[0].kernel.value)

copies = local(model.layers[0].kernel.value)
print([copy.device[-5:] for copy in copies], bool(tf.reduce_all(copies[0] == copies[1])))
one, two = local(strategy.run(gradient, args=(x, y)))
print(bool(tf.reduce_all(one == two)))
"""
    fit = "\nrows = tf.data.Dataset.from_tensor_slices((x, y))\nmodel.fit(rows{}, verbose=0)"
    few = "x, y = images.train_images[:7], images.train_labels[:7]"
    return run(
        {
            "batch": distribute + "print([len(rows) for rows in local(x)])",
            "gradients": distribute + gradients,
            "uneven": few + fit.format(".batch(7)"),
            "no batch": few + fit.format(""),
        },
        before=IMAGES + pair + TRAIN_DATASET + train,
    )


def test_tensorflow_batch_is_for_all_devices_together(tensorflow_on_two):
    assert tensorflow_on_two["batch"].printed == "[64, 64]\n"


def test_tensorflow_copies_variables_but_each_device_has_its_own_gradient(tensorflow_on_two):
    assert tensorflow_on_two["gradients"].printed == "['CPU:0', 'CPU:1'] True\nFalse\n"


def test_tensorflow_first_batch_with_an_odd_number_of_rows_raises(tensorflow_on_two):
    error = tensorflow_on_two["uneven"].error
    assert error.startswith("InvalidArgumentError: ")
    assert "Inputs to operation AddN of type AddN must have the same size and shape." in error
    assert "Input 0: [4,784] != input 1: [3,784]" in error


def test_tensorflow_dataset_without_batch_raises(tensorflow_on_two):
    assert tensorflow_on_two["no batch"].error == "IndexError: list index out of range"


# PyTorch


@pytest.fixture(scope="module")
def pytorch():
    need("torch")
    train = with_marks("pytorch_train.py")
    on_cpu = train.replace(".cuda()", ".cpu()")
    wrap = train.partition("if torch")[0] + "plain, model = model, nn.DataParallel(model)\n"
    return run(
        {
            "detect": original("pytorch_detect.py"),
            "comment": original("pytorch_train.py"),
            "cuda": train,
            "loader": on_cpu,
            "train": TRAIN_LOADER + on_cpu + "print(type(model).__name__)",
            "wrap": wrap + "y = model(torch.ones(4, 784))\nprint(y.shape[0], model.device_ids)",
            "names": wrap + "print(list(model.state_dict()))",
            "load": wrap + "plain.load_state_dict(model.state_dict())",
            "advice": wrap + "print(' '.join(nn.DataParallel.__doc__.split()))",
        },
        before=IMAGES,
    )


def test_pytorch_detection_needs_no_repair(pytorch):
    assert pytorch["detect"] == Outcome("No GPU available.\n", [], "")


def test_pytorch_training_stops_at_the_lost_comment_mark(pytorch):
    assert pytorch["comment"].error == "NameError: name '定义一个简单的神经网络' is not defined"


def test_pytorch_cuda_raises_without_a_gpu_though_the_line_before_has_counted_them(pytorch):
    cpu_build = r"AssertionError: Torch not compiled with CUDA enabled"
    no_gpu = r"RuntimeError: (No CUDA GPUs are available|Found no NVIDIA driver on your system\.)"
    assert re.match(f"{cpu_build}$|{no_gpu}", pytorch["cuda"].error)


def test_pytorch_training_has_no_train_loader(pytorch):
    assert pytorch["loader"].error == "NameError: name 'train_loader' is not defined"


def test_pytorch_without_gpus_trains_on_one_device_without_a_word(pytorch):
    assert pytorch["train"] == Outcome("SimpleNet\n", [], "")


def test_pytorch_dataparallel_without_gpus_passes_all_rows_through_without_a_word(pytorch):
    assert pytorch["wrap"] == Outcome("4 []\n", [], "")


def test_pytorch_dataparallel_changes_the_names_of_the_weights(pytorch):
    names = "['module.fc1.weight', 'module.fc1.bias', 'module.fc2.weight', 'module.fc2.bias']\n"
    assert pytorch["names"].printed == names
    assert pytorch["load"].error.startswith(
        "RuntimeError: Error(s) in loading state_dict for SimpleNet:\n"
        '\tMissing key(s) in state_dict: "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias". \n'
        '\tUnexpected key(s) in state_dict: "module.fc1.weight", '
    )


def test_pytorch_itself_advises_against_dataparallel_which_takes_all_gpus(pytorch):
    advice = pytorch["advice"].printed
    assert (
        "It is recommended to use :class:`~torch.nn.parallel.DistributedDataParallel`, instead of "
        "this class, to do multi-GPU training, even if there is only a single node."
    ) in advice
    assert "device_ids (list of int or torch.device): CUDA devices (default: all devices)" in advice


# MXNet


@pytest.fixture(scope="module")
def mxnet():
    need("mxnet")
    detect = original("mxnet_detect.py")
    train = with_marks("mxnet_train.py")
    definition = train.replace("__init__(self, kwargs)", "__init__(self, **kwargs)")
    both = definition.replace("__init__(kwargs)", "__init__(**kwargs)")
    two = "\nctx = [mx.cpu(0), mx.cpu(1)]\n"
    split = "import mxnet as mx\nfrom mxnet import gluon" + two
    split += "print([len(x) for x in gluon.utils.split_and_load(mx.nd.ones(({}, 784)), ctx{})])"
    return run(
        {
            "detect": NUMPY_BOOL + detect + "print(ctx)",
            "comment": detect + original("mxnet_train.py"),
            "kwargs": detect + train,
            "kwargs in one place": detect + definition,
            "ctx": both,  # run without the detection
            "no devices yet": detect + both.partition("# 训练模型")[0] + "print(ctx)",
            "data": detect + both,
            "empty": detect + TRAIN_DATA + both,
            "train": detect + TRAIN_DATA + two + both + "print(net.fc1.weight.list_ctx())",
            "odd": split.format(7, ""),
            "odd, repaired": split.format(7, ", even_split=False"),
            "one row": split.format(1, ", even_split=False"),
        },
        before=IMAGES,
    )


def test_mxnet_import_fails_with_numpy_of_today_and_needs_a_fresh_kernel_after_the_repair():
    need("mxnet")
    detect = original("mxnet_detect.py")
    outcomes = run({"import": detect, "same kernel, repaired": NUMPY_BOOL + detect})
    assert outcomes["import"].error.startswith(
        "AttributeError: module 'numpy' has no attribute 'bool'.\n"
    )
    error = "AttributeError: module 'mxnet' has no attribute 'context'"
    assert outcomes["same kernel, repaired"].error == error


def test_mxnet_detection_without_gpus_leaves_an_empty_list(mxnet):
    assert mxnet["detect"] == Outcome("Number of GPUs: 0\n[]\n", [], "")


def test_mxnet_training_stops_at_the_lost_comment_mark(mxnet):
    assert mxnet["comment"].error == "NameError: name '定义一个简单的神经网络' is not defined"


def test_mxnet_net_lost_the_stars_of_kwargs_in_two_places(mxnet):
    assert mxnet["kwargs"].error == (
        "TypeError: SimpleNet.__init__() missing 1 required positional argument: 'kwargs'"
    )
    error = "AttributeError: 'dict' object has no attribute 'endswith'"
    assert mxnet["kwargs in one place"].error == error


def test_mxnet_training_needs_ctx_of_the_detection(mxnet):
    assert mxnet["ctx"].error == "NameError: name 'ctx' is not defined"


def test_mxnet_training_has_no_train_data(mxnet):
    assert mxnet["data"].error == "NameError: name 'train_data' is not defined"


def test_mxnet_empty_list_of_devices_is_accepted_and_fails_only_at_the_first_batch(mxnet):
    assert mxnet["no devices yet"] == Outcome("Number of GPUs: 0\n[]\n", [], "")
    assert mxnet["empty"].error.startswith("ZeroDivisionError: ")  # Pythons word the rest anew


def test_mxnet_trains_on_two_devices_without_a_word(mxnet):
    assert mxnet["train"] == Outcome("Number of GPUs: 0\n[cpu(0), cpu(1)]\n", [], "")


def test_mxnet_split_and_load_refuses_an_odd_number_of_rows(mxnet):
    assert mxnet["odd"].error == (
        "ValueError: data with shape (7, 784) cannot be evenly split into 2 slices along axis 0. "
        "Use a batch size that's multiple of 2 or set even_split=False to allow uneven "
        "partitioning of data."
    )
    assert mxnet["odd, repaired"].printed == "[4, 3]\n"


def test_mxnet_split_and_load_fails_for_one_row_even_then(mxnet):
    assert mxnet["one row"].error.startswith("MXNetError: ")
    assert "Operator _copyto inferring shapes failed." in mxnet["one row"].error


# The repaired files, each as it stands, on two GPUs where there are two


def run_repaired(name: str, before: str = "", after: str = "") -> Outcome:
    """Run the file with the names that ``before`` defines, then ``after``; it must not raise."""
    code = f"{before}\nimport runpy\n"
    code += f"after = runpy.run_path({str(REPAIRED / name)!r}, init_globals=globals())\n"
    code += "globals().update(after)\n"
    outcome = run({name: code + after}, gpus=True)[name]
    assert outcome.error == ""
    return outcome


def accuracy(printed: str) -> float:
    return float(printed.splitlines()[-1])


def test_repaired_tensorflow_detection():
    need("tensorflow")
    assert re.search(
        r"^(No GPU available\.|\d+ Physical GPUs, \d+ Logical GPUs)$",
        run_repaired("tensorflow_detect.py").printed,
        re.MULTILINE,
    )


def test_repaired_tensorflow_training():
    need("tensorflow")
    before = "from helpers import devices\ndevices.pair('tensorflow')\n" + IMAGES + TRAIN_DATASET
    guess = "model(images.test_images).numpy().argmax(axis=1)"
    printed, warned, _ = run_repaired(
        "tensorflow_train.py", before, f"print(({guess} == images.test_labels).mean())"
    )
    assert warned == []
    assert re.match(r"(Real|Simulated): .*\nNumber of devices: 2\n", printed)
    assert accuracy(printed) > 0.75


def test_repaired_pytorch_detection():
    need("torch")
    printed = run_repaired("pytorch_detect.py").printed
    assert re.match(r"No GPU available\.$|Number of GPUs: \d", printed)


def test_repaired_pytorch_training():
    need("torch")
    guess = "model(torch.tensor(images.test_images).to(device)).argmax(1).cpu().numpy()"
    printed, _, _ = run_repaired(
        "pytorch_train.py",
        IMAGES + TRAIN_LOADER,
        f"print(torch.cuda.device_count())\nprint(({guess} == images.test_labels).mean())",
    )
    gpus = int(printed.splitlines()[-2])
    said = f"Using 2 of {gpus} GPUs\n" if gpus > 1 else "One device ("
    assert printed.startswith(said)
    assert accuracy(printed) > 0.75


def test_repaired_mxnet_detection():
    need("mxnet")
    printed = run_repaired("mxnet_detect.py").printed
    assert re.search(r"^Device 0: [cg]pu\(0\)\nDevice 1: [cg]pu\(1\)$", printed, re.MULTILINE)


def test_repaired_mxnet_training():
    need("mxnet")
    guess = "net(nd.array(images.test_images, ctx=ctx[0])).asnumpy().argmax(axis=1)"
    printed, _, _ = run_repaired(
        "mxnet_train.py",
        IMAGES + TRAIN_DATA,
        "from mxnet import nd\nprint(len(set(net.fc1.weight.list_ctx())))\n"
        f"print(({guess} == images.test_labels).mean())",
    )
    assert printed.splitlines()[-2] == "2"
    assert accuracy(printed) > 0.75
