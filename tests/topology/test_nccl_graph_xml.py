"""What is read from graph files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.model.topology import PathType
from resilient.topology.malformed import Malformed
from resilient.topology.nccl_graph_xml import GraphKind, Pattern, Stop, read_graphs
from topology.cases import real

MADE = b"""<graphs version="1">
  <graph id="0" pattern="4" crossnic="1" nchannels="1" speedintra="40" speedinter="20.5"
      typeintra="NVL" typeinter="PXN" samechannels="1">
    <channel>
      <net dev="0x0"/><gpu dev="0x0" rank="0"/><gpu dev="0x100000000000001" rank="5"/>
      <net dev="0x1"/>
    </channel>
  </graph>
</graphs>"""


def test_a_real_old_one() -> None:
    """Decimal devices, no ranks; by hand: a ring of 2 channels over 4 GPUs, SYS at 12 GB/s."""
    graphs = read_graphs(real("azure_ncv4-graph.xml"), "g.xml")
    assert [graph.kind for graph in graphs][:2] == [GraphKind.RING, GraphKind.TREE]
    ring = graphs[0]
    assert (ring.pattern, ring.speed_intra, ring.type_intra) == (Pattern.RING, 12.0, PathType.SYS)
    devices = [[stop.dev for stop in channel] for channel in ring.channels]
    assert devices == [[0, 1, 2, 3], [0, 3, 2, 1]]
    assert sum(len(graph.channels) for graph in graphs) == 10
    stops = [stop for graph in graphs for channel in graph.channels for stop in channel]
    assert {stop.rank for stop in stops} == {None}


def test_a_made_one() -> None:
    """Synthetic: hexadecimal devices, the second GPU on system 1 of an NVLink domain."""
    (graph,) = read_graphs(MADE, "g.xml")
    assert (graph.speed_inter, graph.type_inter, graph.crosses_nics) == (20.5, PathType.PXN, True)
    assert graph.channels[0] == (
        Stop(is_gpu=False, dev=0),
        Stop(is_gpu=True, dev=0, rank=0),
        Stop(is_gpu=True, dev=1, system=1, rank=5),
        Stop(is_gpu=False, dev=1),
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"graphs", b"system", "g:1: <system> instead of <graphs>"),
        (b'version="1"', b'version="2"', "g:1: version is not 1"),
        (b'pattern="4"', b'pattern="9"', "g:2: a graph whose id or pattern"),
        (b'nchannels="1"', b'nchannels="2"', "g:2: 1 channels instead of 2"),
        (b'dev="0x1"', b'dev="x"', "g:6: a <net> without a number"),
    ],
)
def test_contradictions(old: bytes, new: bytes, words: str) -> None:
    with pytest.raises(Malformed) as refused:
        read_graphs(MADE.replace(old, new), "g")
    assert words in str(refused.value)


def test_a_path_type_of_a_later_nccl_is_not_known() -> None:
    (graph,) = read_graphs(MADE.replace(b'"NVL"', b'"NEW"'), "g")
    assert graph.type_intra is None


@given(st.sampled_from([b"0x0", b'"4"', b"40", b"gpu", b'"1"']), st.text(max_size=20))
def test_any_values(old: bytes, new: str) -> None:
    try:
        assert read_graphs(MADE.replace(old, new.encode()), "g")
    except Malformed as error:
        assert str(error).startswith("g")
