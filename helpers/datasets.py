"""Real images, fixed starting weights and row splits: the same for every framework.

The images are Fashion-MNIST (Zalando SE, MIT licence, https://github.com/zalandoresearch/fashion-mnist).
``data/fashion_mnist.npz`` holds the first 4,096 training and the first 1,000 test images.
"""

import gzip
import hashlib
import math
import zlib
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

CLASSES = (
    "T-shirt",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

_FILE = Path(__file__).with_name("data") / "fashion_mnist.npz"
_SHA256 = "886082256d99f34c68edf97fb07772910ba006b737fa64aec294ca3c5935795c"
_STANDARD_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


class Images(NamedTuple):
    """Training and test set: images (rows, 784) float32 in 0..1, labels (rows,) int64 in 0..9."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def fashion_mnist(folder: str | Path | None = None) -> Images:
    """Load Fashion-MNIST without a download, always the same rows in the same order.

    Without ``folder``: 4,096 training and 1,000 test images from a file in this package. With
    ``folder``: all 60,000 and 10,000 images from the four standard idx files in it, gzipped or not.

    Raises FileNotFoundError when a file is missing and ValueError when a file is damaged.
    """
    arrays = _packaged_arrays() if folder is None else _standard_arrays(Path(folder))
    train_images, train_labels, test_images, test_labels = arrays
    return Images(
        _scale(train_images),
        train_labels.astype(np.int64),
        _scale(test_images),
        test_labels.astype(np.int64),
    )


def _scale(images: np.ndarray) -> np.ndarray:
    """Turn uint8 pixels of any picture shape into float32 rows in 0..1."""
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


def _packaged_arrays() -> list[np.ndarray]:
    if hashlib.sha256(_FILE.read_bytes()).hexdigest() != _SHA256:
        raise ValueError(
            f"{_FILE.name} is damaged: its SHA-256 is not the expected one. "
            f"Restore it with: git checkout -- helpers/data/{_FILE.name}"
        )
    with np.load(_FILE) as stored:
        return [stored[name] for name in Images._fields]


def _standard_arrays(folder: Path) -> list[np.ndarray]:
    images_and_labels = [_read_idx(_find(folder, name)) for name in _STANDARD_FILES]
    for images, labels in (images_and_labels[:2], images_and_labels[2:]):
        if images.shape[1:] != (28, 28) or labels.shape != (len(images),):
            raise ValueError(
                f"{folder} does not hold Fashion-MNIST: images of shape {images.shape} "
                f"and labels of shape {labels.shape}, expected (rows, 28, 28) and (rows,)."
            )
    return images_and_labels


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"{folder} lacks {name} (or {name}.gz). "
        f"The folder must hold the four files of Fashion-MNIST: {', '.join(_STANDARD_FILES)}."
    )


def _read_idx(path: Path) -> np.ndarray:
    """Read one idx file of bytes: two zeros, the code of uint8, the number of dimensions, their
    sizes, then the values. Raises ValueError where it is damaged."""
    damaged = ValueError(f"{path} is damaged: it is not a complete idx file. Fetch it again.")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise damaged from error
    if len(content) < 4 or content[:3] != b"\0\0\x08":  # two zero bytes, then the code for uint8
        raise damaged
    dimensions = content[3]
    start = 4 + 4 * dimensions
    shape = [int.from_bytes(content[place : place + 4], "big") for place in range(4, start, 4)]
    if len(content) != start + math.prod(shape):
        raise damaged
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def starting_weights(seed: int = 0) -> dict[str, np.ndarray]:
    """Starting weights of the article's 784-128-10 network, float32, always the same.

    ``hidden_weight`` (784, 128), ``hidden_bias`` (128,), ``output_weight`` (128, 10),
    ``output_bias`` (10,):
    ``images @ weight + bias``, as Keras stores them. PyTorch and MXNet store each weight
    transposed. Weights are uniform in ±sqrt(6 / (inputs + outputs)), biases zero (Glorot and
    Bengio, 2010).
    """
    random = np.random.default_rng(seed)

    def glorot(inputs: int, outputs: int) -> np.ndarray:
        limit = np.sqrt(6 / (inputs + outputs))
        return random.uniform(-limit, limit, size=(inputs, outputs)).astype(np.float32)

    return {
        "hidden_weight": glorot(784, 128),
        "hidden_bias": np.zeros(128, np.float32),
        "output_weight": glorot(128, 10),
        "output_bias": np.zeros(10, np.float32),
    }


def split_rows(rows: int, devices: int = 2) -> list[slice]:
    """Cut ``rows`` rows into one contiguous slice per device; the first devices get the odd rows.

    >>> split_rows(7)
    [slice(0, 4, None), slice(4, 7, None)]

    With fewer rows than devices the last slices are empty. Raises ValueError for a negative number
    of rows or no device.
    """
    if rows < 0 or devices < 1:
        raise ValueError(f"Cannot split {rows} rows over {devices} devices.")
    each, odd = divmod(rows, devices)
    edges = [device * each + min(device, odd) for device in range(devices + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]
