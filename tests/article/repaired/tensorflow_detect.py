import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")  # repaired: tf.config.experimental is the old place
if gpus:
    try:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        logical_gpus = tf.config.list_logical_devices("GPU")  # repaired: as above
        print(f"{len(gpus)} Physical GPUs, {len(logical_gpus)} Logical GPUs")
    except RuntimeError as e:
        # repaired: the bare message did not say what follows from it, nor what to do
        print(f"Memory growth is not set: {e}. Restart the kernel and run this first.")
else:  # repaired: without a GPU nothing was printed
    print("No GPU available.")
