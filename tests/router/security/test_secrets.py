"""Files with secrets: read if only their owner can, and never repeated."""

from pathlib import Path

import pytest

from bimetal.errors import SecretFileError
from bimetal.security.secrets import Secrets, read_api_keys, read_token

TOKEN, KEY, OTHER = "token-0123456789abc", "key-one-0123456789", "key-two-0123456789"


def _file(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "secret"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_keys_stand_one_per_line_with_comments_and_blank_lines_between(tmp_path: Path) -> None:
    assert read_api_keys(_file(tmp_path, f"# team a\n{KEY}\n\n  {OTHER}  \n")) == [KEY, OTHER]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_may_touch_is_refused(tmp_path: Path, mode: int) -> None:
    path = _file(tmp_path, TOKEN, mode)
    with pytest.raises(SecretFileError, match=f"its mode is {mode:04o}: expected 0600.*chmod 600 {path}"):
        read_token(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected one line with a token, found 0"),
        (f"{TOKEN}\n{KEY}\n", "expected one line with a token, found 2"),
        ("hunter2\n", "at least 16 characters without blanks"),
        ("hunter2 hunter2 hunter2\n", "at least 16 characters without blanks"),
        ("hunter2hunter2hunter2\u00fc\n", "ASCII characters only"),
    ],
)
def test_a_bad_token_is_refused_without_being_repeated(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SecretFileError) as caught:
        read_token(_file(tmp_path, text))
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("text", "words"), [("# none yet\n", "found none"), (f"{KEY}\n{KEY}\n", "twice")])
def test_a_bad_list_of_keys_is_refused_without_being_repeated(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SecretFileError) as caught:
        read_api_keys(_file(tmp_path, text))
    assert words in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecretFileError, match=r"nowhere: the secret cannot be read: No such file"):
        read_token(tmp_path / "nowhere")


def test_a_secret_opens_what_it_is_for_and_nothing_else() -> None:
    secrets = Secrets(TOKEN, [KEY, OTHER])
    assert [secrets.is_admin(s.encode()) for s in (TOKEN, KEY, "")] == [True, False, False]
    assert [secrets.is_api_key(s.encode()) for s in (KEY, OTHER, TOKEN, "")] == [True, True, False, False]


def test_where_no_secret_is_set_none_fits() -> None:
    secrets = Secrets()
    assert (secrets.guards_admin, secrets.guards_requests) == (False, False)
    assert (secrets.is_admin(b""), secrets.is_api_key(b"")) == (False, False)


def test_what_is_held_cannot_be_read_back() -> None:
    assert TOKEN not in repr(vars(Secrets(TOKEN, [KEY])))
    assert KEY not in repr(vars(Secrets(TOKEN, [KEY])))
