"""What is shared of a run: its backbone, what loads it, a card that says what it is, and the upload."""

from ccl_plugins.sharing.folder import write_folder as write_folder
from ccl_plugins.sharing.hub import upload as upload
