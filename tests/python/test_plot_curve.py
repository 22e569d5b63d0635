"""docs/plot_curve.py draws what an example prints."""

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "plot_curve.py"
SVG = "{http://www.w3.org/2000/svg}"


def plot(data, *options):
    """Run the script on `data`; return what ran and the file it was to write."""
    out = data.with_suffix(".svg")
    done = subprocess.run([sys.executable, SCRIPT, data, out, *options], check=False, capture_output=True, text=True, timeout=60)
    return done, out


def curves(path):
    """Return the points in pixels of each curve of a chart, by name."""
    lines = ElementTree.parse(path).getroot().iter(f"{SVG}polyline")
    return {line.find(f"{SVG}title").text: [tuple(map(float, point.split(","))) for point in line.get("points").split()]
            for line in lines}


def test_a_csv_file_is_drawn(tmp_path):
    data = tmp_path / "curve.csv"
    data.write_text("step,loss,kind\n0,4,a\n50,3,a\n100,2,a\n")
    done, out = plot(data, "--x", "step", "--y", "loss", "--title", "falls & falls")
    assert done.returncode == 0, done.stderr
    (left, top), (middle, half), (right, bottom) = curves(out)["loss"]
    assert middle - left == pytest.approx(right - middle, abs=0.2) and right > left
    assert half - top == pytest.approx(bottom - half, abs=0.2) and bottom > top
    texts = [text.text for text in ElementTree.parse(out).getroot().iter(f"{SVG}text")]
    assert {"falls & falls", "step", "loss", "0", "100", "2", "4"} <= set(texts)


def test_series_are_curves_of_their_own(tmp_path):
    data = tmp_path / "log.txt"
    rows = [{"pass": n, "cost": 9.0 - n, "who": who} for n in range(3) for who in ("alone", "job")]
    data.write_text("reading\n" + "".join(json.dumps(row) + "\n" for row in rows) + '{"other": 1}\ndone\n')
    done, out = plot(data, "--x", "pass", "--y", "cost", "--series", "who", "--log")
    assert done.returncode == 0, done.stderr
    drawn = curves(out)
    assert list(drawn) == ["alone", "job"] and drawn["alone"] == drawn["job"] and len(drawn["alone"]) == 3


@pytest.mark.parametrize("low, high, shown", [(1, 1000, ["1", "10", "50", "1000"]), (119, 259, ["120", "140", "200", "240"])])
def test_a_logarithmic_axis_has_numbers_enough(tmp_path, low, high, shown):
    data = tmp_path / "curve.csv"
    data.write_text(f"x,y\n0,{low}\n1,{high}\n")
    done, out = plot(data, "--x", "x", "--y", "y", "--log")
    assert done.returncode == 0, done.stderr
    assert set(shown) <= {text.text for text in ElementTree.parse(out).getroot().iter(f"{SVG}text")}


def test_smoothing_draws_means(tmp_path):
    data = tmp_path / "curve.csv"
    data.write_text("x,y\n" + "".join(f"{n},{n % 2}\n" for n in range(100)))
    done, out = plot(data, "--x", "x", "--y", "y", "--smooth", "10")
    assert done.returncode == 0, done.stderr
    points = curves(out)["y"]
    assert len(points) == 10 and len({y for _, y in points}) == 1


def test_a_chart_is_the_same_each_time(tmp_path):
    data = tmp_path / "curve.csv"
    data.write_text("x,y\n1,2\n2,1\n")
    first = plot(data, "--x", "x", "--y", "y")[1].read_bytes()
    assert plot(data, "--x", "x", "--y", "y")[1].read_bytes() == first


@pytest.mark.parametrize("text, options, said", [
    ("a,b\n1,2\n", ["--x", "a", "--y", "c"], r"no row has both 'a' and 'c'; columns: a, b"),
    ("a,b\n1,-2\n", ["--x", "a", "--y", "b", "--log"], r"no place for -2"),
    ("a,b\n1,nan\n", ["--x", "a", "--y", "b"], r"not finite"),
    ("a,b\n1,many\n", ["--x", "a", "--y", "b"], r"many"),
])
def test_mistakes_are_explained(tmp_path, text, options, said):
    data = tmp_path / "curve.csv"
    data.write_text(text)
    done, out = plot(data, *options)
    assert done.returncode != 0 and re.search(said, done.stderr) and "Traceback" not in done.stderr
    assert not out.exists()
