import torch
import torch.nn as nn
import torch.optim as optim


# 定义一个简单的神经网络
# repaired: this comment and five below had lost their "#" and were read as names
class SimpleNet(nn.Module):
    def __init__(self):
        super().__init__()  # repaired: today's form
        self.fc1 = nn.Linear(784, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = self.fc2(x)
        return x


# 创建模型
model = SimpleNet()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # repaired: for .to(device)
# 使用DataParallel将模型分配到多个GPU
if torch.cuda.device_count() > 1:
    # repaired: without device_ids it takes all GPUs, not two
    print(f"Using 2 of {torch.cuda.device_count()} GPUs")
    model = nn.DataParallel(model, device_ids=[0, 1])
else:  # repaired: nothing was said when nothing was split
    print(f"One device ({device}): nothing is split")
# 将模型移动到GPU
model = model.to(device)  # repaired: .cuda() raises without a GPU
# 定义损失函数和优化器
criterion = nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=0.001)
# 训练模型
for epoch in range(5):
    for inputs, labels in train_loader:  # noqa: F821  # repaired: the caller defines train_loader
        inputs, labels = inputs.to(device), labels.to(device)  # repaired: as the model
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
    # repaired: it trained without a word
    print(f"Epoch {epoch + 1}: loss of the last batch {loss.item():.4f}")
