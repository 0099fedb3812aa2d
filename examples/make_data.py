"""Made-up data for the example studies; run it in this folder to write the CSV files again."""

import numpy as np
import pandas as pd

HOSPITALS = {"Ashby": 60, "Brook": 140, "Cliff": 45, "Downs": 210, "Elms": 95}
WARDS = {"Alder": 70, "Birch": 30, "Cedar": 120, "Damson": 45, "Elder": 95}
METERS = 6
PARKS = 10
ADMISSIONS = {"Ashby": 180, "Brook": 320, "Cliff": 90, "Downs": 410}


def hospitals(rng: np.random.Generator) -> pd.DataFrame:
    """Patients of five hospitals of unequal size and case mix; `readmitted` is 0 or 1."""
    site = np.repeat(list(HOSPITALS), list(HOSPITALS.values()))
    older = np.repeat(rng.normal(0, 4, len(HOSPITALS)), list(HOSPITALS.values()))
    age = (64 + older + rng.normal(0, 11, len(site))).round()
    stay = rng.gamma(2.5, 2.0, len(site)).round(1)
    smoker = rng.binomial(1, 0.3, len(site))
    logit = -1.2 + 0.05 * (age - 64) + 0.15 * (stay - 5) + 0.7 * smoker
    readmitted = rng.binomial(1, 1 / (1 + np.exp(-logit)))
    columns = {"hospital": site, "age": age.astype(int), "stay": stay, "smoker": smoker}
    return pd.DataFrame({**columns, "readmitted": readmitted})


def meters(rng: np.random.Generator) -> pd.DataFrame:
    """Readings of six meters whose noise has a known standard deviation of 0.5."""
    site = np.repeat(np.arange(METERS), 40)
    x = rng.normal(size=(len(site), 3)).round(3)
    y = 1.5 + x @ [0.8, -0.5, 0.3] + 0.5 * rng.normal(size=len(site))
    columns = {f"x{k + 1}": x[:, k] for k in range(3)}
    return pd.DataFrame({"meter": site, **columns, "y": y.round(3)})


def wards(rng: np.random.Generator) -> pd.DataFrame:
    """Stays on five wards of unequal size; `fell` is 0 or 1."""
    site = np.repeat(list(WARDS), list(WARDS.values()))
    frailer = np.repeat(rng.normal(0, 0.6, len(WARDS)), list(WARDS.values()))
    frailty = (3 + frailer + rng.gamma(3.0, 0.5, len(site))).round(1)
    sedated = rng.binomial(1, 0.4, len(site))
    logit = -1.0 + 0.6 * (frailty - 4.5) + 0.8 * sedated
    fell = rng.binomial(1, 1 / (1 + np.exp(-logit)))
    return pd.DataFrame({"ward": site, "frailty": frailty, "sedated": sedated, "fell": fell})


def birds(rng: np.random.Generator) -> pd.DataFrame:
    """Starlings counted on visits to ten parks."""
    visits = rng.integers(15, 40, PARKS)
    site = np.repeat([f"park{k:02d}" for k in range(PARKS)], visits)
    warmth = rng.normal(12, 5, len(site)).round(1)
    trees = np.repeat(rng.uniform(0.5, 3, PARKS), visits) + rng.normal(0, 0.3, len(site))
    rain = rng.binomial(1, 0.35, len(site))
    rate = np.exp(1.1 + 0.04 * (warmth - 12) + 0.3 * (trees - 1.75) - 0.4 * rain)
    columns = {"park": site, "warmth": warmth, "trees": trees.round(2), "rain": rain}
    return pd.DataFrame({**columns, "starlings": rng.poisson(rate)})


def admissions(rng: np.random.Generator) -> pd.DataFrame:
    """Admissions to four hospitals, with text, gaps, and a ward that one hospital does not have."""
    site = np.repeat(list(ADMISSIONS), list(ADMISSIONS.values()))
    size = len(site)
    ward = rng.choice(["general", "heart", "lungs"], size, p=[0.5, 0.3, 0.2])
    ward[(site == "Cliff") & (ward == "heart")] = "general"
    age = rng.normal(66, 12, size).round().clip(18, 99)
    stay = rng.gamma(2.0, 3.0, size).round(1)
    smoker = rng.choice(["no", "yes"], size, p=[0.7, 0.3])
    logit = -1.3 + 0.03 * (age - 66) + 0.5 * (ward == "heart") + 0.9 * (ward == "lungs")
    logit += 0.7 * (smoker == "yes") + 0.5 * np.cos(stay / 3)
    readmitted = rng.binomial(1, 1 / (1 + np.exp(-logit)))
    table = pd.DataFrame(
        {"hospital": site, "age": age, "ward": ward, "smoker": smoker, "stay": stay}
    )
    table["smoker"] = table["smoker"].where(rng.uniform(size=size) > 0.02)
    table["age"] = table["age"].where(rng.uniform(size=size) > 0.01).astype("Int64")
    return table.assign(readmitted=readmitted)


if __name__ == "__main__":
    for make in (hospitals, wards, meters, birds, admissions):
        make(np.random.default_rng(2024)).to_csv(f"{make.__name__}.csv", index=False)
