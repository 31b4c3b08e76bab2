"""Times of kernels that no device has are rejected where they are read."""

from commands import rejected


def test_a_time_of_next_to_nothing_was_an_internal_error(tmp_path, capsys):
    """One line with the file and the line."""
    rows = "kind,shape,precision,seconds\ngemm,m=8192 n=8192 k=8192 batch=1,bf16,1e-320\n"
    (tmp_path / "c.csv").write_text(rows)
    told = rejected(
        capsys, "calibrate", "--accelerator", "h100-sxm", "--from", tmp_path / "c.csv", "--json"
    )

    assert "c.csv:2: seconds: 9.99989e-321 is no time of a kernel" in told
