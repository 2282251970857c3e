from ccl_plugins.experiments.configuration import override


def test_a_value_is_not_changed_by_a_later_change_below_it():
    component = {"use": "infonce"}
    changes = [(("objective",), component), (("objective", "temperature"), 0.2)]
    assert override({}, changes)["objective"]["temperature"] == 0.2
    assert component == {"use": "infonce"}
