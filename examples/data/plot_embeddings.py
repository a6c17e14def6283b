"""
Embeddings: directions on the sphere
====================================

Encoders of texts and images return vectors whose direction has a meaning and whose
length has none. ``VonMisesFisher`` clusters such vectors, scaled to length 1: two rows
are alike if the angle between them is small. Here handwritten digits stand in for the
output of an encoder, so that nothing has to be downloaded and the centres can be looked
at.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.preprocessing import normalize

from dyncrp import DynamicalMixture, Stationary, VonMisesFisher

# %%
# 1,797 vectors of 64 numbers, in random order.

images, digits = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(images))
X, digits = normalize(images[order]), digits[order]

# %%
# The concentration, which says how close the vectors of a cluster are, is learned. The
# order of the rows has no meaning here, so nothing is to be forgotten.

model = DynamicalMixture(VonMisesFisher(), Stationary()).fit(X)
ami = adjusted_mutual_info_score(digits, model.labels_)
print(f"{model.family_}, {model.n_tables_} tables, AMI with the digits {ami:.2f}")

# %%
# How pure are the tables? We call a table by the digit that most of its rows show.

counts = np.zeros((model.n_tables_, 10), dtype=int)
np.add.at(counts, (model.labels_, digits), 1)
print(
    f"{counts.max(axis=1).sum() / counts.sum():.0%} of the images show the digit "
    "by which their table is called"
)

# %%
# ``centers_`` are the mean directions, drawn as images: the 30 largest tables, by
# digit. A digit that people write in several ways has several tables, such as 1 with
# and without a foot. The number is that of the rows, and after it the share of them
# that show the digit.

largest = np.argsort(-counts.sum(axis=1))[:30]
largest = largest[
    np.lexsort((-counts[largest].sum(axis=1), counts[largest].argmax(axis=1)))
]
figure, axes = plt.subplots(3, 10, figsize=(10, 4.1), layout="constrained")
for axis, table in zip(axes.flat, largest, strict=True):
    axis.imshow(model.centers_[table].reshape(8, 8), cmap="gray_r")
    rows = counts[table].sum()
    axis.set_title(f"“{counts[table].argmax()}”", fontsize="medium")
    axis.set_xlabel(f"{rows}, {counts[table].max() / rows:.0%}", fontsize="small")
    axis.set(xticks=[], yticks=[])
plt.show()
