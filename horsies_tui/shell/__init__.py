"""The frame around the views: the application, its keys, header, footer and sheets, and how an operation runs."""
