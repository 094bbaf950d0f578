"""What the test of uneven rows runs in the kernel of each chapter."""

# Each source trains and evaluates ROWS rows in batches of BATCH with the functions of its chapter,
# on two devices and on one, and prints {"two": {way: losses}, "one": losses, "scores": {way: [rows,
# mean loss, right answers]}, "score": the same from one device}.
SOURCES = {
    "02_tensorflow": [
        """
import json
x, y = images.train_images[:ROWS], images.train_labels[:ROWS]
batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
two = {"strategy": by_strategy(batches).losses}
two |= {f"by hand, device {i}": run.losses for i, run in enumerate(by_hand(batches))}
with strategy.scope():
    net = start()
losses = cross_entropy(y, start()(x), from_logits=True).numpy()
right = int((start()(x).numpy().argmax(1) == y).sum())
assert train_rows(x, y, BATCH)[0] == ROWS
one, score = on_one_device(batches).losses, [ROWS, float(losses.mean()), right]
scores = {"strategy": evaluate(net, x, y, BATCH)}
print(json.dumps({"two": two, "one": one, "scores": scores, "score": score}))
"""
    ],
    "04_mxnet": [
        """
import json
x, y = images.train_images[:ROWS], images.train_labels[:ROWS]
batches = [
    (mx.nd.array(x[i : i + BATCH]), mx.nd.array(y[i : i + BATCH])) for i in range(0, ROWS, BATCH)
]
two = {f"tool, device {i}": run.losses for i, run in enumerate(by_tool(batches, start(contexts)))}
two |= {f"by hand, device {i}": run.losses for i, run in enumerate(by_hand(batches))}
one = by_tool(batches, start([first]))[0].losses
outputs = start([first])(mx.nd.array(x, ctx=first))
loss = float(loss_fn(outputs, mx.nd.array(y, ctx=first)).mean().asscalar())
right = int((outputs.argmax(axis=1).asnumpy() == y).sum())
scores = {"tool": evaluate(start(contexts), x, y, BATCH)}
print(json.dumps({"two": two, "one": one, "scores": scores, "score": [ROWS, loss, right]}))
"""
    ],
    "03_pytorch": [
        """%%px
batches = [train_set[i : min(i + BATCH, ROWS)] for i in range(0, ROWS, BATCH)]
net = DistributedDataParallel(start(SimpleNet()).to(device))
ddp = with_ddp(net, my_shares(batches), weighted_by_rows).losses
hand = by_hand(start(SimpleNet()).to(device), batches).losses
score = evaluate(net.module, *(part[:ROWS] for part in train_set.tensors), batch=BATCH)
weights = {name: weight.cpu() for name, weight in net.module.state_dict().items()}
""",
        """
import json
batches = [train_set[i : min(i + BATCH, ROWS)] for i in range(0, ROWS, BATCH)]
net = start(SimpleNet()).to(device)
one = on_one_device(net, batches).losses
rows, losses, right = count(net, *(part[:ROWS] for part in train_set.tensors)).tolist()
two = {f"{way}, rank {rank}": run for way in ("ddp", "hand") for rank, run in enumerate(team[way])}
scores = {f"rank {rank}": score for rank, score in enumerate(team["score"])}
print(json.dumps({"two": two, "one": one, "scores": scores, "score": [rows, losses / rows, right]}))
""",
    ],
}
