import numpy as np

from helpers import devices  # repaired: for the two devices below

if "bool" not in np.__dict__:  # repaired: MXNet 1.9.1 asks for np.bool, gone since NumPy 1.24
    np.bool = bool
from mxnet import autograd, gluon  # repaired: mx, imported too, was not used
from mxnet.gluon import nn


# 定义一个简单的神经网络
# repaired: this comment and three below had lost their "#" and were read as names
class SimpleNet(nn.Block):
    def __init__(self, **kwargs):  # repaired: "**" was lost, here and in the next line
        super().__init__(**kwargs)
        self.fc1 = nn.Dense(128, activation="relu")
        self.fc2 = nn.Dense(10)

    def forward(self, x):
        x = self.fc1(x)
        x = self.fc2(x)
        return x


# repaired: ctx came from the snippet before, and was empty without a GPU
ctx = list(devices.pair("mxnet").devices)
# 创建模型
net = SimpleNet()
net.initialize(ctx=ctx)
# 定义损失函数和优化器
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.001})
# 训练模型
for epoch in range(5):
    for data, label in train_data:  # noqa: F821  # repaired: the caller defines train_data
        # repaired: without even_split=False a batch of 7 rows raises on two devices
        data_list = gluon.utils.split_and_load(data, ctx, even_split=False)
        label_list = gluon.utils.split_and_load(label, ctx, even_split=False)
        with autograd.record():
            # repaired: strict=True is today's form of zip
            losses = [loss_fn(net(X), y) for X, y in zip(data_list, label_list, strict=True)]
        for loss in losses:  # repaired: the name l reads like the number 1
            loss.backward()
        trainer.step(data.shape[0])
    # repaired: it trained without a word
    total = sum(loss.sum().asscalar() for loss in losses)
    print(f"Epoch {epoch + 1}: loss of the last batch {total / data.shape[0]:.4f}")
