"""The real processor without a JVM: any cut of the stream gives the bits of one machine."""

from tests.fleet.dirty import cuts
from tests.spark.job import NAMES, SCHEMA, dirty, fleet_of
from tests.spark.test_spark_tables import draw
from tests.spark.test_spark_tables import fleet_of as fleet_of_table
from undrift.fleet import canonical


def test_random_cuts_through_the_processor():
    from pyspark.sql import Row
    from pyspark.sql.streaming.tws_tester import TwsTester

    from undrift.spark import Processor

    fleet, rows = fleet_of(), dirty(keys=6)
    local = fleet.run(rows)
    make = Row(*NAMES)
    for seed in range(3):
        tester, said = TwsTester(Processor(fleet)), []
        for part in cuts(rows, seed):
            for key in dict.fromkeys(row["key"] for row in part):
                mine = [make(*(row[name] for name in NAMES)) for row in part if row["key"] == key]
                said += tester.test(key, mine)
        assert canonical(said) == canonical(local.outputs)
        for key, state in local.states.items():
            assert bytes(tester.peekValueState("state", key)[0]) == state


def test_random_cuts_of_a_table_through_the_processor():
    from pyspark.sql import Row
    from pyspark.sql.streaming.tws_tester import TwsTester

    from undrift.spark import Processor

    times = {row["at"] for row in draw("text")} - {None}
    counts = {at: round(at.timestamp() * 1_000_000) for at in times}  # as the shuffle brings them
    rows = [{**row, "at": counts.get(row["at"])} for row in draw("text")]
    fleet = fleet_of_table(rows, weight="w")
    local, make = fleet.run(rows), Row(*fleet.fields.names)
    keys = fleet.batch(rows).keys
    for seed in range(2):
        tester, said = TwsTester(Processor(fleet)), []
        for part in cuts([*zip(keys, rows, strict=True)], seed):
            for key in dict.fromkeys(key for key, _ in part):
                mine = [make(*(row[name] for name in fleet.fields.names)) for own, row in part if own == key]
                said += tester.test(key, mine)
        assert canonical(row[:6] for row in said) == canonical(local.outputs)
        assert {len(row) for row in said} == {7}
        for key, state in local.states.items():
            assert bytes(tester.peekValueState("state", key)[0]) == state


def test_the_schema_of_the_tests_names_the_columns():
    assert [part.split()[0] for part in SCHEMA.split(", ")] == NAMES
