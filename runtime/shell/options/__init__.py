"""The options of the source, from text to one frozen value.

In come the options that a user set; out comes ``SourceOptions``, or one error that names option and remedy.
``table`` has every option of ours, ``kafka_settings.rows`` all that is known of each ``kafka.*`` name.
``security_settings`` translates stores and logins and hides secrets, ``connection_settings`` says what our own
connections honour.  No thread, no socket; files are read only where an option names one.
"""
