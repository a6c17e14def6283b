"""Write the files of this folder anew: invented data, written as people and their programs write them."""

import random
from datetime import datetime, timedelta
from pathlib import Path

FOLDER = Path(__file__).parent


def write(name, lines, encoding="utf-8", end="\n"):
    (FOLDER / name).write_bytes((end.join(lines) + end).encode(encoding))


def german(number):
    """1.234,56"""
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def bank_statement(rng):
    lines = ["Buchungstag;Valuta;Auftraggeber/Empfänger;Buchungstext;Betrag;Währung;Saldo"]
    day, balance = datetime(2025, 1, 2), 2500.0
    kinds = [("Lastschrift", "Stadtwerke", -80, 15), ("Kartenzahlung", "REWE Markt", -45, 20)]
    kinds += [("Dauerauftrag", "Miete Hausverwaltung Beer", -890, 0), ("Gutschrift", "Meyer & Sohn GmbH", 2650, 60)]
    for _ in range(90):
        kind, who, mean, spread = rng.choices(kinds, [3, 6, 1, 1])[0]
        amount = round(rng.gauss(mean, spread), 2)
        balance += amount
        date = day.strftime("%d.%m.%Y")
        lines.append(f"{date};{date};{who};{kind};{german(amount)} €;EUR;{german(balance)}")
        day += timedelta(days=rng.choice([0, 1, 1, 2, 3]))
    write("bank_statement.csv", lines, "utf-8-sig", "\r\n")


def sensor_log(rng):
    lines = ["ts,temp_c,humidity,co2_ppm,battery_v"]
    at = 1_760_000_000_000
    for i in range(200):
        night = i // 50 % 2
        cells = [rng.gauss(21 - 3 * night, 0.3), rng.gauss(45 + 8 * night, 1.5), rng.gauss(900 - 400 * night, 40)]
        texts = [f"{cell:.2f}" if rng.random() > 0.06 else "" for cell in cells]
        lines.append(",".join([str(at), *texts, f"{3.1 - i / 2000:.3f}"]))
        at += 60_000 + rng.randrange(-900, 900)
    write("sensor_log.csv", lines)


def web_log(rng):
    lines = ["time,client,method,path,status,bytes,referrer,user_agent,duration_ms"]
    agents = ['"Mozilla/5.0 (Windows NT 10.0; Win64; x64)"', '"curl/8.5.0"', '"Googlebot/2.1 (+http://www.google.com)"']
    at = datetime(2026, 3, 2, 8, 0, 0)
    for _ in range(250):
        agent = rng.choices(agents, [8, 1, 2])[0]
        path, size = rng.choices([("/", 9), ("/api/v1/items", 6), ("/static/app.js", 12)], [3, 5, 2])[0]
        status = rng.choices([200, 304, 404, 500], [20, 4, 2, 1])[0]
        n_bytes = 0 if status == 304 else int(rng.lognormvariate(size, 0.8))
        client = f"10.0.{rng.randrange(4)}.{rng.randrange(250)}"
        referrer = rng.choice(["-", "https://example.org/"])
        method = "POST" if path.startswith("/api") and rng.random() < 0.3 else "GET"
        cells = [at.isoformat() + "Z", client, method, path, status, n_bytes, referrer, agent]
        lines.append(",".join(map(str, [*cells, round(rng.lognormvariate(3, 1), 1)])))
        at += timedelta(seconds=rng.randrange(20))
    write("web_log.csv", lines)


def survey(rng):
    lines = ["Respondent,Age group,Member,Q1 Satisfaction,Q2 Price,Q3 Recommend,Comments"]
    likert = ["Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"]
    words = ["the", "staff", "was", "friendly", "but", "queue", "prices", "fair", "parking", "coffee", "good", "again"]
    for i in range(80):
        happy = rng.random() < 0.6
        answers = [rng.choices(likert, [1, 1, 2, 6, 6] if happy else [5, 5, 3, 1, 1])[0] for _ in range(3)]
        comment = (
            " ".join(rng.sample(words, 6)).capitalize() + f", {rng.randrange(99)} times." if rng.random() < 0.7 else ""
        )
        member = rng.choices(["Yes", "No", ""], [6, 4, 1])[0]
        group = rng.choice(["18-25", "26-40", "41-60", "60+"])
        lines.append(f'R-{1000 + 7 * i},{group},{member},{",".join(answers)},"{comment}"')
    write("survey.csv", lines)


def clinical(rng):
    lines = ["patient_id,sex,age,smoker,bmi,sbp,dbp,chol,glucose,diagnosis"]
    for i in range(120):
        ill = rng.random() < 0.4
        cells = [rng.gauss(31 if ill else 24, 2.5), rng.gauss(150 if ill else 118, 9), rng.gauss(95 if ill else 76, 6)]
        cells += [rng.gauss(250 if ill else 190, 20), rng.gauss(140 if ill else 92, 10)]
        texts = [f"{cell:.1f}" if rng.random() > 0.08 else rng.choice(["NA", "-999"]) for cell in cells]
        smoker = rng.choices(["yes", "no", "NA"], [5, 5, 1] if ill else [2, 9, 1])[0]
        diagnosis = rng.choice(["E11.9", "I10"]) if ill else "none"
        lines.append(",".join([f"P{i:04}", rng.choice("MF"), str(rng.randrange(25, 80)), smoker, *texts, diagnosis]))
    write("clinical.csv", lines)


def shop(rng):
    lines = ["Order;Date;SKU;Category;Qty;Unit price;Discount;Paid;Ship to"]
    goods = [("AB-100", "Books", 15), ("AB-205", "Books", 22), ("EL-007", "Electronics", 480), ("TO-311", "Toys", 30)]
    day = datetime(2025, 11, 1)
    order = 104_200
    for _ in range(150):
        sku, kind, price = rng.choice(goods)
        order += rng.randrange(1, 5)
        cost = f"{price * rng.uniform(0.9, 1.1):.2f}".replace(".", ",")
        cells = [
            order,
            day.strftime("%d/%m/%Y"),
            sku,
            kind,
            rng.choice([1, 1, 1, 2, 3]),
            cost,
            rng.choice([0, 0, 5, 10]),
        ]
        paid, country = rng.choices(["true", "false"], [9, 1])[0], rng.choice(["DE", "AT", "FR", "NL"])
        lines.append(";".join(map(str, [*cells, paid, country])))
        day += timedelta(hours=rng.randrange(12))
    write("shop.csv", lines, "utf-8-sig", "\r\n")


def fitness(rng):
    lines = ["Date,Activity,Steps,Distance (km),Calories,Active minutes,Avg heart rate,Sleep"]
    for i in range(180):
        day = datetime(2025, 1, 1) + timedelta(days=i)
        kind, steps, minutes, heart = rng.choice(
            [("Rest", 4000, 20, 62), ("Run", 14000, 75, 118), ("Cycling", 6000, 90, 108)]
        )
        n = max(200, int(rng.gauss(steps, 1200)))
        cells = [f'"{n:,}"', f"{n * 0.00075:.2f}", f"{1700 + n // 20}", str(max(0, int(rng.gauss(minutes, 9))))]
        beat = str(int(rng.gauss(heart, 5))) if rng.random() > 0.1 else "--"
        sleep = f"{rng.randrange(5, 9)}h {rng.randrange(60):02}m"
        lines.append(",".join([day.strftime("%Y-%m-%d"), kind, *cells, beat, sleep]))
    write("fitness.csv", lines)


def logistics(rng):
    lines = ["shipment,departed,lane,carrier,weight_kg,volume,load,on_time,cost"]
    for i in range(120):
        lane, weight, cost = rng.choice([("HAM-MUC", 12000, 1450), ("ROT-MIL", 21000, 2600), ("BER-WAW", 3200, 610)])
        day = (datetime(2025, 5, 5) + timedelta(hours=5 * i)).strftime("%m/%d/%Y %I:%M %p")
        kg, price = rng.gauss(weight, weight / 10), rng.gauss(cost, cost / 12)
        carrier = rng.choice(["DSV", "DB Schenker", "Raben"])
        late = rng.choices(["Y", "N"], [8, 2])[0]
        cells = [
            f"SH{90000 + 3 * i}",
            day,
            lane,
            carrier,
            f'"{kg:,.0f}"',
            f"{kg / 330:.1f}",
            f"{rng.randrange(55, 100)}%",
        ]
        lines.append(",".join([*cells, late, f'"${price:,.2f}"']))
    write("logistics.csv", lines)


def electricity(rng):
    lines = ["Zeitstempel;Zählerstand (kWh);Leistung (kW);Spannung (V);Tarif;Status"]
    reading = 18_432.0
    for i in range(288):
        at = datetime(2025, 2, 3) + timedelta(minutes=15 * i)
        day = 7 <= at.hour < 21
        power = rng.gauss(1.9, 0.3) if day else rng.gauss(0.3, 0.05)
        reading += power / 4
        cells = [at.strftime("%d.%m.%Y %H:%M"), german(reading), f"{power:.3f}".replace(".", ",")]
        volts = f"{rng.gauss(230, 1.2):.1f}".replace(".", ",") if rng.random() > 0.03 else ""
        lines.append(";".join([*cells, volts, "HT" if day else "NT", rng.choices(["W", "E"], [30, 1])[0]]))
    write("electricity.csv", lines, "latin-1", "\r\n")


def telephone(rng):
    lines = ["No.\tDate\tTime\tDirection\tNumber\tCountry\tDuration\tSeconds\tCharge"]
    at = datetime(2025, 9, 1, 8)
    for i in range(140):
        abroad = rng.random() < 0.2
        seconds = int(rng.lognormvariate(5 if abroad else 4, 1.1))
        number = f"+{rng.choice([44, 33, 1]) if abroad else 49} {rng.randrange(100, 999)} {rng.randrange(10**6, 10**7)}"
        charge = f"£{seconds / 60 * (0.35 if abroad else 0.05):.2f}"
        where = rng.choice(["United Kingdom", "France"]) if abroad else "Germany"
        length = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        way = rng.choice(["out", "out", "in"])
        cells = [i + 1, at.strftime("%d %b %Y"), at.strftime("%H:%M"), way, number, where, length, seconds, charge]
        lines.append("\t".join(map(str, cells)))
        at += timedelta(minutes=rng.randrange(400))
    write("telephone.tsv", lines)


if __name__ == "__main__":
    for seed, make in enumerate(
        [bank_statement, sensor_log, web_log, survey, clinical, shop, fitness, logistics, electricity, telephone]
    ):
        make(random.Random(seed))
