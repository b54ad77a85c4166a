"""Monthly weather in Seattle: what a model writes when it is asked for a table and a chart."""

import json

import matplotlib.pyplot as plt
import pandas as pd

weather = pd.read_csv("seattle-weather.csv", parse_dates=["date"])
weather["month"] = weather["date"].dt.month

months = weather.groupby("month").agg(
    rain_mm=("precipitation", "sum"),
    wet_days=("precipitation", lambda days: int((days > 0).sum())),
    warmest=("temp_max", "max"),
    coldest=("temp_min", "min"),
)
years = weather["date"].dt.year.nunique()
months[["rain_mm", "wet_days"]] /= years

figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 7), sharex=True, constrained_layout=True)
top.bar(months.index, months["rain_mm"], color="#4c78a8")
top.set_ylabel("rain per month (mm)")
top.set_title(f"Seattle, {weather['date'].min():%Y} to {weather['date'].max():%Y}")
by_month = weather.groupby("month")
bottom.fill_between(months.index, by_month["temp_min"].mean(), by_month["temp_max"].mean(), color="#f58518", alpha=0.35)
bottom.plot(months.index, by_month["temp_max"].mean(), color="#f58518", label="mean high")
bottom.plot(months.index, by_month["temp_min"].mean(), color="#e45756", label="mean low")
bottom.set_ylabel("temperature (°C)")
bottom.set_xticks(range(1, 13), list("JFMAMJJASOND"))
bottom.legend(frameon=False)
for axes in (top, bottom):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("seattle.png", dpi=110)

months.round(1).to_csv("months.csv")
print(f"{len(weather)} days read, {len(months)} months written")

json.loads(months.round(1).reset_index().to_json(orient="records"))
