"""
Topics of headlines over time
=============================

``Multinomial`` clusters texts by their words. Here, 720 made-up headlines of two months
are read once, in the order in which they came. Topics come and go; their number is not
given.
"""

from datetime import timedelta
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.metrics import adjusted_mutual_info_score

from dyncrp import DynamicalMixture, Exponential, Multinomial, plots

# %%
# The file is ``docs/headlines.csv`` of the repository. Outside a clone, and in a
# notebook, let ``path`` say where it is.

path = Path(__file__).resolve().parents[2] / "docs" / "headlines.csv"
news = pd.read_csv(path, parse_dates=["when"])
print(news.headline[:3].to_string(index=False))

# %%
# A column of texts is all that the model needs; words are counted on the way.
# ``Exponential`` dynamics say that what was in the news ten days ago counts 1/e as much
# as what is in the news now.

model = DynamicalMixture(Multinomial(100.0), Exponential(timedelta(days=10)), alpha=0.3)
labels = model.fit(news.headline, times=news.when).labels_
ami = adjusted_mutual_info_score(news.topic, labels)
print(
    f"{model.n_tables_} tables, AMI with the topics that the headlines were made "
    f"from {ami:.2f}"
)

# %%
# ``describe()`` says what a table is about: words that are much more frequent there
# than elsewhere.

words = model.describe()["words"]
for table, text in words.items():
    print(table, text.split(", ")[:3])

# %%
# The picture shows when each topic was in the news. The storm of April joins the table
# of the storm of March. A table without new headlines loses weight, but keeps its
# words, so a topic that comes back is recognised.

plt.figure(plots.topics(news.when, labels, words, name="when"))
plt.show()
