from mxnet import gluon, autograd
from mxnet.gluon import nn
import mxnet as mx
定义一个简单的神经网络
class SimpleNet(nn.Block):
    def __init__(self, kwargs):
        super(SimpleNet, self).__init__(kwargs)
        self.fc1 = nn.Dense(128, activation='relu')
        self.fc2 = nn.Dense(10)
    def forward(self, x):
        x = self.fc1(x)
        x = self.fc2(x)
        return x
创建模型
net = SimpleNet()
net.initialize(ctx=ctx)
定义损失函数和优化器
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
trainer = gluon.Trainer(net.collect_params(), 'adam', {'learning_rate': 0.001})
训练模型
for epoch in range(5):
    for data, label in train_data:
        data_list = gluon.utils.split_and_load(data, ctx)
        label_list = gluon.utils.split_and_load(label, ctx)
        with autograd.record():
            losses = [loss_fn(net(X), y) for X, y in zip(data_list, label_list)]
        for l in losses:
            l.backward()
        trainer.step(data.shape[0])
