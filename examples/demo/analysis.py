# What a model might write when it is asked: "When does it rain in Seattle, and how warm is it then?"
import matplotlib.pyplot as plt
import pandas as pd

weather = pd.read_csv("seattle-weather.csv", parse_dates=["date"])
weather["month"] = weather["date"].dt.month
weather["mean"] = (weather["temp_max"] + weather["temp_min"]) / 2

monthly = weather.groupby("month").agg(
    rainy_days=("precipitation", lambda rain: (rain > 0).sum() / weather["date"].dt.year.nunique()),
    rain_mm=("precipitation", "sum"),
    mean_temp=("mean", "mean"),
    wind=("wind", "mean"),
)
monthly["rain_mm"] /= weather["date"].dt.year.nunique()

figure, rain = plt.subplots(figsize=(8, 4.2))
rain.bar(monthly.index, monthly["rain_mm"], color="#4c78a8", label="rain, mm a month")
rain.set_xticks(range(1, 13), ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
rain.set_ylabel("rain (mm)")
warmth = rain.twinx()
warmth.plot(monthly.index, monthly["mean_temp"], color="#e45756", marker="o", label="mean temperature, °C")
warmth.set_ylabel("temperature (°C)")
rain.set_title(f"Seattle, {weather['date'].dt.year.min()}–{weather['date'].dt.year.max()}: wet winters, dry summers")
figure.legend(loc="lower center", ncols=2, frameon=False)
figure.tight_layout(rect=(0, 0.06, 1, 1))
figure.savefig("seattle.png", dpi=110)
monthly.round(1).to_csv("monthly.csv")

print(f"{len(weather)} days read; the wettest month is {monthly['rain_mm'].idxmax()}")
[{"month": int(month), **{name: float(value) for name, value in row.items()}} for month, row in monthly.iterrows()]
