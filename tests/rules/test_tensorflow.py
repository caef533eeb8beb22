"""Scripts of TensorFlow, for Horovod: the whole text of what they become, and what is left to a person."""

# ruff: noqa: E501 (lines as they are written)

from __future__ import annotations

import difflib

import pytest
from distify_codemods import Level, Options, Outcome, SourceFile, convert
from distify_codemods.interpreter import machine

HOROVOD = Options(backend="horovod")

MONITORED = """\
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()


def batches(size):
    data = tf.data.Dataset.from_tensor_slices((np.random.rand(64, 6), np.random.randint(0, 10, 64)))
    data = data.shuffle(64).repeat().batch(size)
    return tf.data.make_one_shot_iterator(data).get_next()


def main(_):
    x, y = batches(16)
    logits = tf.matmul(x, tf.get_variable("w", [6, 10], tf.float64))
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    opt = tf.train.AdagradOptimizer(0.01)
    train_op = opt.minimize(loss, global_step=tf.train.get_or_create_global_step())
    config = tf.ConfigProto()
    hooks = [tf.train.StopAtStepHook(last_step=100)]
    with tf.train.MonitoredTrainingSession(checkpoint_dir="logs", config=config, hooks=hooks) as session:
        while not session.should_stop():
            session.run(train_op)


if __name__ == "__main__":
    tf.app.run()
"""
MONITORED_LINES = """\
+import horovod.tensorflow as hvd
+hvd.init()
-    data = tf.data.Dataset.from_tensor_slices((np.random.rand(64, 6), np.random.randint(0, 10, 64)))
+    data = tf.data.Dataset.from_tensor_slices((np.random.rand(64, 6), np.random.randint(0, 10, 64))).shard(hvd.size(), hvd.rank())
-    opt = tf.train.AdagradOptimizer(0.01)
+    opt = tf.train.AdagradOptimizer(0.01 * hvd.size())
+    opt = hvd.DistributedOptimizer(opt)
-    hooks = [tf.train.StopAtStepHook(last_step=100)]
-    with tf.train.MonitoredTrainingSession(checkpoint_dir="logs", config=config, hooks=hooks) as session:
+    hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=100 // hvd.size())]
+    config.gpu_options.visible_device_list = str(hvd.local_rank())
+    with tf.train.MonitoredTrainingSession(checkpoint_dir="logs" if hvd.rank() == 0 else None, config=config, hooks=hooks) as session:
"""
SESSION = """\
import numpy as np
import tensorflow as tf

tf.compat.v1.disable_eager_execution()
data = tf.compat.v1.data.Dataset.from_tensor_slices(np.random.rand(100, 4)).repeat().shuffle(100).batch(10)
x = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
w = tf.compat.v1.get_variable("w", [4, 1], tf.float64)
loss = tf.reduce_mean(tf.matmul(x, w) ** 2)
train = tf.compat.v1.train.GradientDescentOptimizer(learning_rate=0.1).minimize(loss)
saver = tf.compat.v1.train.Saver()
with tf.compat.v1.Session() as sess:
    sess.run(tf.compat.v1.global_variables_initializer())
    for step in range(100):
        _, value = sess.run([train, loss])
        if step % 10 == 0:
            print(step, value)
    saver.save(sess, "model.ckpt")
"""
SESSION_LINES = """\
+import horovod.tensorflow as hvd
+hvd.init()
-data = tf.compat.v1.data.Dataset.from_tensor_slices(np.random.rand(100, 4)).repeat().shuffle(100).batch(10)
+data = tf.compat.v1.data.Dataset.from_tensor_slices(np.random.rand(100, 4)).shard(hvd.size(), hvd.rank()).repeat().shuffle(100).batch(10)
-train = tf.compat.v1.train.GradientDescentOptimizer(learning_rate=0.1).minimize(loss)
+train = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(learning_rate=0.1 * hvd.size())).minimize(loss)
-with tf.compat.v1.Session() as sess:
+config = tf.compat.v1.ConfigProto()
+config.gpu_options.visible_device_list = str(hvd.local_rank())
+with tf.compat.v1.Session(config=config) as sess:
+    sess.run(hvd.broadcast_global_variables(0))
-            print(step, value)
-    saver.save(sess, "model.ckpt")
+            if hvd.rank() == 0:
+                print(step, value)
+    if hvd.rank() == 0:
+        saver.save(sess, "model.ckpt")
"""
DATASET = """\
import tensorflow as tf
from tensorflow import keras

(x, y), (tx, ty) = keras.datasets.mnist.load_data()
data = tf.data.Dataset.from_tensor_slices((x / 255.0, y)).shuffle(10000).batch(128)
held_out = tf.data.Dataset.from_tensor_slices((tx / 255.0, ty)).batch(128)
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10)])
opt = keras.optimizers.Adam(0.001)
model.compile(loss="mse", optimizer=opt, metrics=["accuracy"])
callbacks = [keras.callbacks.ModelCheckpoint("{epoch}.keras"), keras.callbacks.EarlyStopping()]
model.fit(data, epochs=4, callbacks=callbacks, validation_data=held_out)
score = model.evaluate(held_out, verbose=0)
print("Test accuracy:", score[1])
model.save("final.keras")
"""
DATASET_LINES = """\
+import horovod.tensorflow.keras as hvd
+hvd.init()
+gpus = tf.config.list_physical_devices("GPU")
+if gpus:
+    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
-data = tf.data.Dataset.from_tensor_slices((x / 255.0, y)).shuffle(10000).batch(128)
+dataset = tf.data.Dataset.from_tensor_slices((x / 255.0, y))
+data = dataset.take(len(dataset) // hvd.size() * hvd.size()).shard(hvd.size(), hvd.rank()).shuffle(10000).batch(128)
-opt = keras.optimizers.Adam(0.001)
+opt = keras.optimizers.Adam(0.001 * hvd.size())
+opt = hvd.DistributedOptimizer(opt)
-callbacks = [keras.callbacks.ModelCheckpoint("{epoch}.keras"), keras.callbacks.EarlyStopping()]
-model.fit(data, epochs=4, callbacks=callbacks, validation_data=held_out)
+callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), *([keras.callbacks.ModelCheckpoint("{epoch}.keras")] if hvd.rank() == 0 else []), keras.callbacks.EarlyStopping()]
+model.fit(data, epochs=4, callbacks=callbacks, validation_data=held_out, verbose=1 if hvd.rank() == 0 else 0)
-print("Test accuracy:", score[1])
-model.save("final.keras")
+if hvd.rank() == 0:
+    print("Test accuracy:", score[1])
+    model.save("final.keras")
"""
ARRAYS = """\
import keras
from keras import layers

(x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
model = keras.models.Sequential()
model.add(layers.Flatten())
model.add(layers.Dense(10, activation="softmax"))
model.compile(loss="mse", optimizer=keras.optimizers.Adadelta(), metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=128, epochs=12, verbose=1, validation_data=(x_test, y_test))
"""
ARRAYS_LINES = """\
+import tensorflow as tf
+import horovod.keras as hvd
+hvd.init()
+gpus = tf.config.list_physical_devices("GPU")
+if gpus:
+    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
-model.compile(loss="mse", optimizer=keras.optimizers.Adadelta(), metrics=["accuracy"])
-model.fit(x_train, y_train, batch_size=128, epochs=12, verbose=1, validation_data=(x_test, y_test))
+model.compile(loss="mse", optimizer=hvd.DistributedOptimizer(keras.optimizers.Adadelta(learning_rate=0.001 * hvd.size())), metrics=["accuracy"])
+share = slice(hvd.rank(), len(x_train) // hvd.size() * hvd.size(), hvd.size())
+model.fit(x_train[share], y_train[share], batch_size=128, epochs=12, verbose=1 if hvd.rank() == 0 else 0, validation_data=(x_test, y_test), callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
"""


def converted(text: str, options: Options = HOROVOD) -> str:
    conversion = convert(SourceFile("train.py", text.encode()), lambda *_: None, options)
    assert conversion.outcome is Outcome.CONVERTED, [str(one) for one in conversion.of(Level.BLOCKING)]
    return conversion.files[0].after.decode()


def needed(text: str, options: Options = HOROVOD) -> list[str]:
    conversion = convert(SourceFile("train.py", text.encode()), lambda *_: None, options)
    assert (conversion.outcome, conversion.files) == (Outcome.REFUSED, ())
    return [f"{one.code} {one.message}" for one in conversion.of(Level.BLOCKING)]


@pytest.mark.parametrize(
    ("before", "lines"),
    [(MONITORED, MONITORED_LINES), (SESSION, SESSION_LINES), (DATASET, DATASET_LINES), (ARRAYS, ARRAYS_LINES)],
    ids=["monitored session", "session", "keras data set", "keras arrays"],
)
def test_what_a_script_becomes(before: str, lines: str) -> None:
    after = converted(before)
    compile(after, "train_dist.py", "exec")
    diff = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))[2:]
    assert [line for line in diff if line[1:] and not line.startswith("@@")] == lines.splitlines()


def test_a_script_that_cannot_be_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows may train, too."""
    monkeypatch.setattr(machine, "MOST_STATEMENTS", 20)
    text = ARRAYS + "print(1)\n" * 100
    assert needed(text) == ["OTHER01 the program is too large to be followed to its end"]


def test_a_second_conversion_is_declined() -> None:
    for text in (MONITORED, SESSION, DATASET, ARRAYS):
        [message] = needed(converted(text))
        assert message == "REFUSE01 this script is distributed with Horovod already"


def test_options() -> None:
    after = converted(MONITORED, Options(backend="horovod", scale="none", compression="fp16"))
    assert "tf.train.AdagradOptimizer(0.01)\n" in after
    assert "opt = hvd.DistributedOptimizer(opt, compression=hvd.Compression.fp16)\n" in after
    after = converted(MONITORED, Options(backend="horovod", op="adasum"))
    assert "tf.train.AdagradOptimizer(0.01)\n" in after
    assert "opt = hvd.DistributedOptimizer(opt, op=hvd.Adasum)\n" in after


def test_other_backends() -> None:
    [message] = needed(DATASET, Options())
    assert message == "REFUSE05 this script trains with TensorFlow"


LOOP = "for a, b in data:\n    with tf.GradientTape() as tape:\n        loss = model(a)\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (DATASET.replace("model.fit", LOOP + "model.fit"),
         "REFUSE05 this script trains by a training loop with a GradientTape"),
        (SESSION.replace(".repeat()", ""),
         "TF04 the processes might take different numbers of steps, and wait for each other for ever: how long this "
         "data set is is not known, and it is not repeated"),
        (SESSION.replace("sess.run(tf.compat.v1.global_variables_initializer())", "saver.restore(sess, 'old')"),
         "TF03 it was not seen where this session gives variables their first values"),
        (DATASET.replace("optimizer=opt", "optimizer='adam'"), "TF02 the optimizer is given by its name"),
        (DATASET.replace("Adam(0.001)", "Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 100, 0.9))"),
         "TF02 the learning rate is a schedule of Keras, which cannot be multiplied"),
        (ARRAYS.replace("model.fit(x_train", "model.fit(prepared(x_train)"),
         "TF04 how this data can be shared out is not known"),
        (DATASET.replace("model.fit(data", "model.fit(tf.data.Dataset.zip((data, data))"),
         "TF04 where the batches of this training come from was not followed to a tf.data.Dataset"),
        (SESSION.replace("data = tf.compat.v1.data.Dataset", "data = strange.Dataset"),
         "TF04 where the batches of this training come from was not followed to a tf.data.Dataset"),
        (DATASET.replace("optimizer=opt", "optimizer=keras.optimizers.get('adam')"),
         "TF02 it was not seen where the optimizer of this is made"),
        (DATASET.replace("model.compile(", "strange("), "TF02 it was not seen where the optimizer of this is made"),
        (SESSION.replace("tf.compat.v1.train.Grad", "tf.contrib.opt.Lazy").replace(
            "saver =", "tf.compat.v1.train.AdamOptimizer()\nsaver ="),
         "TF02 it was not seen where the optimizer of this is made"),
        (ARRAYS + "open('log.txt', 'w')\n", "TF05 every process would write this"),
    ],
)  # fmt: skip
def test_what_is_left_to_a_person(script: str, message: str) -> None:
    assert message in needed(script)
