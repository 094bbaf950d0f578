import tensorflow as tf

from helpers import devices  # repaired: for the two devices below

# 设置分布策略
# repaired: the line above had lost its "#" and was read as a name
# repaired: MirroredStrategy() takes one device where there are no two GPUs, and does not warn
pair = devices.pair("tensorflow")
print(pair)
strategy = tf.distribute.MirroredStrategy(pair.devices)
print(f"Number of devices: {strategy.num_replicas_in_sync}")
with strategy.scope():
    # 构建和编译模型
    model = tf.keras.models.Sequential(
        [
            tf.keras.Input((784,)),  # repaired: Keras 3 warns about input_shape= in a layer
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    # 训练模型
    # repaired: train_dataset was not defined. The caller defines it; its batch is for all devices
    # together (128 rows are 64 on each of two)
    # repaired: without shuffle=False Keras warns that shuffle=True was passed
    model.fit(train_dataset, epochs=5, shuffle=False)  # noqa: F821
