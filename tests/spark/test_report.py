"""`headgate spark report`: the page on all groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.consumers import reading
from typer.testing import CliRunner

from headgate.broker import Broker, run
from headgate.cli import app
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.domain.ids import TopicPartition as Place
from headgate.fleet.audit import Audited
from headgate.fleet.facts import GroupFacts
from headgate.fleet.report import Report, gather, page
from headgate.fleet.report.charts import Colours, bars, lines, short
from headgate.fleet.report.gather import SHOWN, largest, members_over_time
from headgate.fleet.report.series import NOTHING, OTHERS, Series, counted, filled, interval_for, series_of
from headgate.fleet.rules import Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_700_000_000_000
ODD = "<i>odd</i> & \u00e9"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A server with a topic of 30 records, two groups that only commit, and one whose member has left."""
    with run({"offsets.topic.num.partitions": "2"}, data_dir=tmp_path_factory.mktemp("data")) as started:
        address: dict[str, Any] = {"bootstrap.servers": started.bootstrap_servers}
        admin = AdminClient(address)
        admin.create_topics([NewTopic("flights", 1, 1)])["flights"].result(timeout=30)
        producer = Producer(address)
        for number in range(30):  # the first of them from 1970
            producer.produce("flights", b"x", timestamp=1 if number == 0 else 0)
        assert producer.flush(20) == 0
        for group, offsets in ((ODD, (4, 10)), ("back", (20, 5))):
            consumer = Consumer({**address, "group.id": group})
            for offset in offsets:
                consumer.commit(offsets=[TopicPartition("flights", 0, offset)], asynchronous=False)
            consumer.close()
        with reading(
            started.bootstrap_servers, "members", "flights", {"group.protocol": "consumer"}
        ) as member:
            member.commit(offsets=[TopicPartition("flights", 0, 30)], asynchronous=False)
        del admin, producer
        yield started


class _Page(HTMLParser):
    """The words of a page, its tags, and what it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href") and value]

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def test_the_page_has_the_groups_their_findings_and_their_charts(spark: SparkSession, broker: Broker) -> None:
    steps: list[str] = []
    report = gather(spark, broker.bootstrap_servers, on_step=steps.append)
    assert report.commit_count == 5
    assert {each.name: each.points[-1][1] for each in report.lag or ()} == {ODD: 20, "back": 25, "members": 0}
    assert {each.name: sum(value or 0 for _, value in each.points) for each in report.commits} == {
        ODD: 2,
        "back": 2,
        "members": 1,
    }
    assert [(each.name, [size for _, size in each.points]) for each in report.members] == [
        ("members", [1, 0])
    ]
    text = page(report)
    read = _Page(text)
    assert read.tags.count("svg") == 5 and "script" not in read.tags and not read.loads
    assert ODD in read.words and "<i>" not in text
    assert "backwards" in read.words
    assert steps[0] == "auditing the groups" and len(steps) == 4


def test_a_data_directory_has_a_report_too_with_the_command(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    target = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["spark", "report", str(broker.data_dir), str(target), "--no-lag"])
    assert result.exit_code == 0, result.stderr
    assert "3 groups, 1 with findings" in result.stderr
    read = _Page(target.read_text())
    assert "unknown" in read.words and read.tags.count("svg") == 4
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("source", "target", "code", "message"),
    [
        ("nowhere", "report.html", 1, "there is no data directory"),
        ("127.0.0.1:1", "report.html", 1, "127.0.0.1:1"),
        ("nowhere", "no/such/folder/report.html", 2, "there is no folder"),
    ],
)
def test_mistakes(
    spark: SparkSession, tmp_path: Path, source: str, target: str, code: int, message: str
) -> None:
    result = CliRunner().invoke(app, ["spark", "report", source, str(tmp_path / target)])
    assert result.exit_code == code
    assert message in result.stderr and "Traceback" not in result.stderr


def test_a_retention_that_no_setting_has_is_refused_in_words(tmp_path: Path) -> None:
    arguments = ["nowhere", str(tmp_path / "report.html"), "--retention-minutes", "99999999999"]
    result = CliRunner().invoke(app, ["spark", "report", *arguments])
    assert result.exit_code == 2
    assert "--retention-minutes" in result.stderr and "Traceback" not in result.stderr


def test_a_narrow_screen_has_room_for_the_times_below_a_chart() -> None:
    """Every other time is left out there: the large letters would overlap."""
    text = page_of("g")
    assert "@media (max-width: 640px)" in text and "svg .between { display: none; }" in text
    chart = text[text.index("<svg") : text.index("</svg>")]
    times = re.findall(r"<text([^>]*)>\d\d:\d\d:\d\d</text>", chart)
    assert ["between" in each for each in times] == [False, True, False, True, False]


def test_a_chart_of_one_moment_shows_a_point_and_its_time_once() -> None:
    """A line of one point has no length, and five times at one place cannot be read."""
    picture = lines([Series("a", ((NOW, 7),))], [0])
    assert re.search(r'd="M[\d.]+ [\d.]+h0"', picture)
    assert len(re.findall(r">\d\d:\d\d:\d\d<", picture)) == 1
    assert re.search(r"\.line {[^}]*stroke-linecap: round", page_of("g"))


def test_a_page_without_any_group() -> None:
    report = Report(
        source="x",
        made_at=Millis(NOW),
        first_at=None,
        last_at=None,
        interval_ms=1000,
        commit_count=0,
        audited=(),
    )
    read = _Page(page(report))
    assert "Nothing remarkable." in read.words and "svg" not in read.tags


def test_a_lag_that_is_not_known_is_no_small_one() -> None:
    """Of a partition without a leader, for example. A page without findings tells it, too."""
    known = page_of("g", findings=())
    assert "Nothing remarkable." in known and "without a known end" not in known
    lost = (Place(TopicName("flights"), 1),)
    assert "1 partition without a known end" in page_of("g", unknown_ends=lost, findings=())
    assert "at least 1<" in page_of("g", unknown_ends=lost) and "at least" not in page_of("g")


def page_of(
    *names: str,
    unknown_ends: tuple[Place, ...] = (),
    findings: tuple[Finding, ...] = (Finding.DEAD,),
) -> str:
    """Return the page on groups with these names, by default dead, with a line and bars in every chart."""
    facts = GroupFacts(
        group_id=GroupId(""),
        group_type="classic",
        state="Empty",
        offset_count=1,
        last_commit_at=Millis(NOW),
        empty_since=None,
        first_expiry_at=None,
        last_expiry_at=None,
        lag=1,
        unknown_ends=unknown_ends,
    )
    points = tuple((NOW + number * 1000, number) for number in range(1, 121))
    charts = tuple(Series(name, points) for name in (*names[:SHOWN], OTHERS))
    return page(
        Report(
            source=names[0],
            made_at=Millis(NOW),
            first_at=Millis(NOW),
            last_at=Millis(NOW),
            interval_ms=1000,
            commit_count=1,
            audited=tuple(Audited(replace(facts, group_id=GroupId(name)), findings) for name in names),
            commits=charts,
            lag=charts,
            rebalances=charts,
            members=charts,
        )
    )


@pytest.mark.parametrize(
    "name",
    [
        "</title></svg><script>",
        "'\"><img src=x>",
        "&lt;",
        "a\r\nb",
        "\0",
        "\x1b[2J",
        "\x85",
        "\u202eb",
        "\ud800",
        "\ufffe",
    ],
)
def test_a_page_has_no_tag_and_no_control_character_of_a_name(name: str) -> None:
    text = page_of(name)
    assert _Page(text).tags == _Page(page_of("plain")).tags
    assert text.replace("\n", "").isprintable()


def test_a_page_is_not_longer_for_long_names_or_many_groups() -> None:
    """A name has up to 32,767 bytes, and each bar has the name of its group."""
    text = page_of(*(f"{number}{'&' * 32_000}{number}" for number in range(5_000)))
    assert len(text) < 5_000_000
    assert page_of("x" * 250).count("x" * 250) > 2 * 120


@pytest.mark.parametrize(
    ("span_s", "interval_s"),
    [(0, 1), (120, 1), (121, 5), (3600, 60), (7 * 86_400, 6 * 3600), (2**62 // 1000, None)],
)
def test_intervals_divide_any_time_into_few(span_s: int, interval_s: int | None) -> None:
    interval = interval_for(NOW, NOW + span_s * 1000)
    assert interval_s is None or interval == interval_s * 1000
    assert span_s * 1000 // interval <= 120


def test_series_are_sorted_and_filled() -> None:
    a, others = series_of([("a", 3000, 2), (OTHERS, 1000, 7), ("a", 1000, 1)], ["a", "b", OTHERS])
    assert list(a.points) == [(1000, 1), (3000, 2)]
    assert list(others.points) == [(1000, 7)]
    assert list(filled(a, 1000, 1500, 3999).points) == [(1000, 1), (2000, 0), (3000, 2)]
    assert counted([5000, 1000, 1200]) == (
        Series("", ((1000, 2), (2000, 0), (3000, 0), (4000, 0), (5000, 1))),
        1000,
    )
    assert counted([]) == (NOTHING, 1000)


def test_a_name_keeps_its_colour() -> None:
    colours = Colours()
    first, second = (
        [Series(name, ()) for name in names] for names in (("a", "b", OTHERS), ("c", "b", "others"))
    )
    assert colours.of(first) == [0, 1, 7]
    assert colours.of(second) == [2, 1, 3]


def test_no_two_series_of_a_chart_have_the_same_colour() -> None:
    """Also of names that got the same one in different charts, because there are more names than colours."""
    colours = Colours()
    names = [f"group-{number}" for number in range(14)]
    for chart in (names[:7], names[7:], names[::2], names[1::2], [*names[4:10], OTHERS]):
        assert len(set(colours.of([Series(name, ()) for name in chart]))) == len(chart)


def test_a_group_is_never_taken_for_the_other_groups(spark: SparkSession) -> None:
    """Whatever its id: the largest have series of their own, the rest is one without an id."""
    from pyspark.sql import functions as F  # noqa: N812

    ids = ["others", *(f"g{number}" for number in range(SHOWN + 1))]
    rows = spark.createDataFrame(
        [(name, NOW, 9 - at) for at, name in enumerate(ids)], ["group_id", "at", "value"]
    )
    found = {each.name: each.points for each in largest(rows, F.sum("value"))}
    assert (found["others"], found[OTHERS]) == (((NOW, 9),), ((NOW, 3),))
    assert len(found) == SHOWN + 1


def test_a_group_that_changes_all_the_time_has_few_points(spark: SparkSession) -> None:
    """The most and the last number of members of each interval, of the groups with the most changes."""
    from pyspark.sql import functions as F  # noqa: N812

    numbers = spark.range(20_000).select(
        F.lit("busy").alias("group_id"),
        F.timestamp_millis(NOW + F.col("id") * 30).alias("at"),
        F.col("id").alias("log_offset"),
        F.pmod(F.col("id"), F.lit(9)).alias("member_count"),
    )
    quiet = spark.range(SHOWN + 3).select(
        F.concat(F.lit("quiet"), "id").alias("group_id"),
        F.timestamp_millis(F.lit(NOW)).alias("at"),
        F.col("id").alias("log_offset"),
        F.lit(1).alias("member_count"),
    )
    busy, *others = members_over_time(numbers.unionByName(quiet), "5 seconds")
    points = list(busy.points)
    assert 120 < len(points) <= 240
    assert sum(value == 8 for _, value in points) >= 120
    assert points[-1:] == [(NOW + 19_999 * 30, 19_999 % 9)]
    assert [each.points for each in others] == [((NOW, 1),)] * (SHOWN - 1)


@pytest.mark.parametrize("highest", [0, 1, 3, 7, 30, 999, 2**62])
def test_the_grid_has_few_lines_and_room_for_every_value(highest: int) -> None:
    picture = lines([Series("a", ((NOW, highest), (NOW + 1000, None), (NOW + 2000, 0)))], [0])
    assert 2 <= picture.count('class="grid"') <= 6
    ys = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", picture)]
    assert len(ys) == 2 and all(0 <= y <= 240 for y in ys)


def test_bars_stand_on_each_other() -> None:
    at = ((NOW, 2),)
    picture = bars([Series("a", at), Series("b", at)], [0, 1], 1000)
    (first, second) = re.findall(r'y="([\d.]+)" width="[\d.]+" height="([\d.]+)"', picture)
    assert float(second[0]) + float(second[1]) == pytest.approx(float(first[0]))


def test_short_numbers() -> None:
    assert [short(value) for value in (0, 12, 1500, 20_000_000, 3e9)] == ["0", "12", "1.5k", "20M", "3G"]
