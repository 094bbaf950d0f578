"""The images, the starting weights and the row splits."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from helpers import datasets

DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # Debian's package dataset-fashion-mnist


def write_idx(path: Path, array: np.ndarray) -> None:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(b"\0\0\x08" + bytes([array.ndim]) + sizes + array.tobytes())


@pytest.fixture
def standard_folder(tmp_path):
    """A folder with four small files in the standard form, the test labels gzipped."""
    random = np.random.default_rng(1)
    for part, rows in (("train", 6), ("t10k", 3)):
        pictures = random.integers(0, 256, (rows, 28, 28), dtype=np.uint8)
        write_idx(tmp_path / f"{part}-images-idx3-ubyte", pictures)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", np.arange(rows, dtype=np.uint8))
    plain = tmp_path / "t10k-labels-idx1-ubyte"
    plain.with_name(plain.name + ".gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    return tmp_path


def test_packaged_images_have_the_promised_form():
    images = datasets.fashion_mnist()
    assert [array.shape for array in images] == [(4096, 784), (4096,), (1000, 784), (1000,)]
    assert [array.dtype.name for array in images] == ["float32", "int64", "float32", "int64"]
    for pictures, labels in (images[:2], images[2:]):
        assert pictures.min() == 0 and pictures.max() == 1
        assert set(labels) == set(range(10))
    assert len(datasets.CLASSES) == 10


def test_packaged_images_are_the_same_every_time_and_not_shared():
    first, second = datasets.fashion_mnist(), datasets.fashion_mnist()
    first.train_images[0] = 0.5
    assert second.train_images[0].max() == 1


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="the full Fashion-MNIST is not on this machine")
def test_packaged_images_are_the_first_rows_of_the_full_set():
    small, full = datasets.fashion_mnist(), datasets.fashion_mnist(DEBIAN)
    assert full.train_images.shape == (60_000, 784) and full.test_images.shape == (10_000, 784)
    for some, all_of_them in zip(small, full, strict=True):
        assert (some == all_of_them[: len(some)]).all()


def test_damaged_package_file_is_noticed(tmp_path, monkeypatch):
    damaged = tmp_path / "fashion_mnist.npz"
    shutil.copy(datasets._FILE, damaged)
    with damaged.open("r+b") as file:
        file.seek(1000)
        file.write(b"x")
    monkeypatch.setattr(datasets, "_FILE", damaged)
    with pytest.raises(ValueError, match="git checkout"):
        datasets.fashion_mnist()


def test_folder_with_the_four_standard_files(standard_folder):
    images = datasets.fashion_mnist(standard_folder)
    assert images.train_images.shape == (6, 784) and images.test_labels.tolist() == [0, 1, 2]
    assert images.train_images.dtype == np.float32


def test_missing_file_is_named(standard_folder):
    (standard_folder / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match="lacks train-labels-idx1-ubyte"):
        datasets.fashion_mnist(standard_folder)


@pytest.mark.parametrize(
    "content", [b"", b"\0\0", b"\0\0\x08\x03\0\0", b"GIF89a", b"\0\0\x08\1\0\0\0\6abc"]
)
def test_damaged_standard_file_is_named(standard_folder, content):
    (standard_folder / "train-labels-idx1-ubyte").write_bytes(content)
    with pytest.raises(ValueError, match="train-labels-idx1-ubyte is damaged"):
        datasets.fashion_mnist(standard_folder)


def test_truncated_gzip_file_is_named(standard_folder):
    path = standard_folder / "t10k-labels-idx1-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte\.gz is damaged"):
        datasets.fashion_mnist(standard_folder)
    path.write_bytes(whole[:10] + b"\xff" + whole[11:])
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte\.gz is damaged"):
        datasets.fashion_mnist(standard_folder)


def test_files_of_another_data_set_are_refused(standard_folder):
    write_idx(standard_folder / "train-images-idx3-ubyte", np.zeros((6, 32, 32), np.uint8))
    with pytest.raises(ValueError, match="does not hold Fashion-MNIST"):
        datasets.fashion_mnist(standard_folder)


def test_starting_weights_are_fixed_and_fit_the_network():
    weights = datasets.starting_weights()
    shapes = {name: array.shape for name, array in weights.items()}
    assert shapes == {
        "hidden_weight": (784, 128),
        "hidden_bias": (128,),
        "output_weight": (128, 10),
        "output_bias": (10,),
    }
    assert {array.dtype.name for array in weights.values()} == {"float32"}
    again, other = datasets.starting_weights(), datasets.starting_weights(seed=1)
    assert all((weights[name] == again[name]).all() for name in weights)
    assert (weights["hidden_weight"] != other["hidden_weight"]).any()
    # A NumPy that draws other numbers from the same seed would change every stored output.
    assert weights["hidden_weight"][0, 0] == np.float32(0.02221812)


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 7, 8, 101])
def test_row_split_covers_each_row_once_and_evenly(rows, devices):
    shares = [range(rows)[share] for share in datasets.split_rows(rows, devices)]
    assert [row for share in shares for row in share] == list(range(rows))
    sizes = [len(share) for share in shares]
    assert len(sizes) == devices and max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("rows", "devices"), [(-1, 2), (8, 0)])
def test_impossible_row_split_is_refused(rows, devices):
    with pytest.raises(ValueError, match="Cannot split"):
        datasets.split_rows(rows, devices)
