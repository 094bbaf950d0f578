import mxnet as mx
ctx = [mx.gpu(i) for i in range(mx.context.num_gpus())]
print(f'Number of GPUs: {len(ctx)}')
for i, gpu in enumerate(ctx):
    print(f'GPU {i}: {gpu}')
