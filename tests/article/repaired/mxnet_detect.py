import numpy as np

from helpers import devices  # repaired: for the two devices below

if "bool" not in np.__dict__:  # repaired: MXNet 1.9.1 asks for np.bool, gone since NumPy 1.24
    np.bool = bool
import mxnet as mx

ctx = [mx.gpu(i) for i in range(mx.context.num_gpus())]
print(f"Number of GPUs: {len(ctx)}")
if len(ctx) < 2:  # repaired: with an empty list the training stops, with one GPU nothing is split
    pair = devices.pair("mxnet")
    print(pair)
    ctx = list(pair.devices)
for i, device in enumerate(ctx):  # repaired: a device need not be a GPU
    print(f"Device {i}: {device}")
